"""The folder of a deployed network: overlapping pointers are refused, objects are of one compiler and its options."""

from __future__ import annotations

import re
import shutil
import subprocess

import c_programs
import int8_networks
import pytest

from moccasin_mzn.deploy.c.deployment import folder_of
from moccasin_mzn.deploy.c.summary import flash
from moccasin_mzn.deploy.c.writing import sources
from moccasin_mzn.graphs.tiling.cutting import cuts_of

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


@pytest.mark.parametrize("rows", [None, 2])
def test_flash_is_what_the_arrays_take(rows, tmp_path):
    net = c_programs.network(int8_networks.keyword_spotting(), tmp_path)
    program = c_programs.in_order(net, None if rows is None else cuts_of(net.graph, rows=rows))
    for name, text in sources(program).items():
        (tmp_path / name).write_text(text)
    subprocess.run([c_programs.compiler, "-fno-pic", "-O1", "-c", "model.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-S", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    sizes = {name: int(size, 16) for size, name in re.findall(r"^\w+ (\w+) [rdRD] (\w+)$", symbols, re.M)}
    found = flash(program)
    ends = ("_weights", "_bias", "_factors")
    assert found["weights, biases, scales"] == sum(size for name, size in sizes.items() if name.endswith(ends))
    assert found["tables of functions"] == sum(size for name, size in sizes.items() if "exponentials" in name) > 0
    assert found["plan"] == sum(sizes[name] for name in ("places", "steps", "reads"))


def test_two_networks_are_in_one_program(command, tmp_path):
    """Each with its own names; kernels are linked once. Both return what LiteRT's kernels do."""
    names = {"kws": int8_networks.keyword_spotting(), "Sounds_2": int8_networks.autoencoder()}
    for name, data in names.items():
        path = tmp_path / f"{name}.tflite"
        path.write_bytes(data)
        status, out, _ = command("deploy", "c", path, "--prefix", name, "-o", tmp_path / name, "--tests", 2)
        assert status == 0
        assert "multiply-adds" in out and "flash, weights, biases, scales" in out
        found = {file.name for file in (tmp_path / name).iterdir()}
        assert found == {"kernels.h", "kernels.c", f"{name}.h", f"{name}.c", "test.c", "Makefile"}
        text = (tmp_path / name / "test.c").read_text().replace("int main(void)", f"int test_{name}(void)")
        (tmp_path / name / "test.c").write_text(text)
    (tmp_path / "main.c").write_text(
        "int test_kws(void);\nint test_Sounds_2(void);\nint main(void) { return test_kws() + test_Sounds_2(); }\n"
    )
    files = ["main.c", "kws/kernels.c", *(f"{name}/{file}.c" for name in names for file in (name, "test"))]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run([c_programs.compiler, *flags, *files, "-lm", "-o", "main"], cwd=tmp_path, check=True)
    found = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.count("2 of 2 outputs are equal") == 2
    for name in names:
        subprocess.run([c_programs.compiler, "-c", f"{name}.c"], cwd=tmp_path / name, check=True)
        symbols = subprocess.run(
            ["nm", "-g", f"{name}.o"], cwd=tmp_path / name, capture_output=True, text=True, check=True
        )
        defined = [line.split()[-1] for line in symbols.stdout.splitlines() if " U " not in line]
        assert defined == [f"{name}_invoke"]
        assert f"#define {name.upper()}_ARENA" in (tmp_path / name / f"{name}.h").read_text()


def test_kernels_of_another_version_are_not_linked(tmp_path):
    texts = sources(c_programs.in_order(c_programs.network(int8_networks.autoencoder(), tmp_path)))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.c").write_text(main())
    subprocess.run([c_programs.compiler, "-c", "main.c", "model.c"], cwd=tmp_path, check=True)
    (tmp_path / "kernels.h").write_text(re.sub("(?<=mc_run_)[0-9a-f]{8}", "01234567", texts["kernels.h"]))
    command = [c_programs.compiler, "main.o", "model.o", "kernels.c", "-lm", "-o", "main"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode and "mc_run_" in found.stderr


@pytest.mark.parametrize("prefix", ["3d", "", "a-b", "kernels", "test", "é", "a/b"])
def test_what_names_cannot_begin_with_is_refused(prefix, command, tmp_path):
    (path := tmp_path / "net.tflite").write_bytes(int8_networks.autoencoder())
    status, out, err = command("deploy", "c", path, "--prefix", prefix, "-o", tmp_path / "c")
    assert (status, out) == (2, "") and "prefix" in err and len(err.splitlines()) == 1 and not (tmp_path / "c").exists()


def make(folder, *words: str) -> str:
    return subprocess.run(["make", "-s", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


ARM = "CC=arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb"
OTHERS = [
    "CFLAGS=-O0", "CC=cc -fno-inline", "CFLAGS=-O2 -DNAME='two words'",
    pytest.param(ARM, marks=pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no compiler for Arm")),
]  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_objects_are_of_one_compiler_and_its_options(other, tmp_path):
    net = int8_networks.Builder(0, 1, 8, 8, 3)
    net = c_programs.network(net.packed(net.convolution(net.convolution(net.input, 4, 3), 3)), tmp_path)
    texts = folder_of(c_programs.in_order(net))
    for folder in (used := tmp_path / "used", fresh := tmp_path / "fresh"):
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text)
    before = make(used, "size")
    found = make(used, "stack")
    deepest = int(re.search(r"at most (\d+) bytes: model_invoke, mc_run, a kernel, two helpers", found)[1])
    frames = {name: int(size) for name, size in re.findall(r":(\w+)\t(\d+)\t", found)}
    assert frames["model_invoke"] + max(frames.values()) < deepest <= sum(frames.values())
    assert make(used, "size") == before
    written = [(used / "kernels.o").stat().st_mtime_ns]
    found = make(used, "size", other)
    assert found == make(fresh, "size", other) and (found != before or "NAME" in other)
    written.append((used / "kernels.o").stat().st_mtime_ns)
    assert make(used, "size", other) == found
    written.append((used / "kernels.o").stat().st_mtime_ns)
    assert written[0] < written[1] == written[2]
    assert "1 of 1 outputs are equal" in make(used) and make(used, "size") == before
