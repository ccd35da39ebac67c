"""The folder of a deployed network: overlapping pointers are refused, objects are of one compiler and its options."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytest.importorskip("ai_edge_litert")

import c_programs
import int8_networks

from moccasin_mzn.deploy.c.deployment import folder_of
from moccasin_mzn.deploy.c.writing import sources

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")


def two_outputs() -> bytes:
    """Two inputs of 12 bytes, an output of 12 and one of 5 bytes."""
    net = int8_networks.Builder(0, 1, 12)
    other = net.tensor((1, 12), 0.02, 3)
    net.graph.inputs.append(other)
    both = net.add(net.input, other)
    return net.packed(both, net.dense(both, 5))


def main(*calls: tuple[str, int]) -> str:
    """A program that makes calls on a buffer, each with what it returns; what it refuses writes nothing."""
    lines = [
        f"    memset(b, 77, sizeof b);\n    if (model_invoke({arguments}) != {expected}) return {at};\n"
        f"    for (i = 0; {int(expected != 0)} && i < (int)sizeof b; i++) if (b[i] != 77) return {100 + at};\n"
        for at, (arguments, expected) in enumerate(calls, start=1)
    ]
    text = (
        '#include "model.h"\n#include <stddef.h>\n#include <string.h>\n\nint main(void)\n{\n    static int8_t b[64];\n'
    )
    return f"{text}    int i;\n{''.join(lines)}    return 0;\n}}\n"


def test_outputs_that_overlap_are_refused_and_nothing_is_written(tmp_path):
    program = c_programs.in_order(c_programs.network(two_outputs(), tmp_path))
    for name, text in sources(program).items():
        (tmp_path / name).write_text(text)
    calls = (
        ("b, b + 12, b + 24, b + 36", 0), ("b, b, b + 12, b + 24", 0), ("b + 24, b + 36, b + 5, b", 0),
        ("b, b + 12, b, b + 36", 2), ("b, b + 12, b + 12, b + 36", 2), ("b, b + 12, b + 24, b + 11", 2),
        ("b, b + 12, b + 24, b + 35", 2), ("b + 17, b + 40, b, b + 12", 0), ("b + 15, b + 40, b, b + 11", 2),
        ("b, b + 12, b + 23, b + 36", 2), ("b + 12, b + 24, b + 1, b + 40", 2), ("b, b + 12, b + 24, NULL", 1),
    )  # fmt: skip
    (tmp_path / "main.c").write_text(main(*calls))
    flags = [*c_programs.STRICT.split(), *c_programs.SANITIZED.split()]
    files = ["main.c", "model.c", "kernels.c", "-lm", "-o", "main"]
    subprocess.run([c_programs.compiler, *flags, *files], cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path, check=False).returncode == 0
    assert "2 if an output overlaps an input or another output" in (tmp_path / "model.h").read_text()


def make(folder, *words: str) -> str:
    return subprocess.run(["make", "-s", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


ARM = "CC=arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb"
OTHERS = [
    "CFLAGS=-O0", "CC=cc -fno-inline", "CFLAGS=-O2 -DNAME='two words'",
    pytest.param(ARM, marks=pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no compiler for Arm")),
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_objects_are_of_one_compiler_and_its_options(other, tmp_path):
    texts = folder_of(c_programs.in_order(c_programs.network(int8_networks.autoencoder(), tmp_path)))
    for folder in (used := tmp_path / "used", fresh := tmp_path / "fresh"):
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text)
    before = make(used, "size")
    make(used, "stack")
    assert make(used, "size") == before
    written = [(used / "kernels.o").stat().st_mtime_ns]
    found = make(used, "size", other)
    assert found == make(fresh, "size", other) and (found != before or "NAME" in other)
    written.append((used / "kernels.o").stat().st_mtime_ns)
    assert make(used, "size", other) == found
    written.append((used / "kernels.o").stat().st_mtime_ns)
    assert written[0] < written[1] == written[2]
    assert "1 of 1 outputs are equal" in make(used) and make(used, "size") == before
