"""What a program takes of a device: multiply-adds, memory, flash by kind, and what the compiler that is here makes of
it: code, and the deepest stack."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.deploy.c.kernels import Array, Kernel, Value
from moccasin_mzn.deploy.c.network import bytes_of
from moccasin_mzn.deploy.c.program import Program

_ELEMENTS = {"int8_t": 1, "uint16_t": 2, "int32_t": 4, "float": 4, "mc_between": 6, "mc_factor": 8, "mc_double": 12}
"""Bytes of an element of a constant array, by its type."""
_WEIGHTS = ("weights", "bias", "factors")
"""Arrays that hold what was trained, and its scales."""
_SECONDS = 60
"""A compiler is ended after this time."""
_PLACE, _STEP, _READ = 16, 8, 2
"""Bytes of `mc_place`, `mc_step`, and of a number in the table of reads."""


def flash(program: Program) -> dict[str, int]:
    """Bytes of constant arrays, by kind, without the parameters of layers, a few dozen bytes each."""
    layers = {call.layer: program.network.layers[call.layer].kernel for call in program.calls}
    arrays = [array for kernel in layers.values() for array in _arrays(kernel)]
    reads = sum(len(places) + 1 for call in program.calls for places in call.reads)
    constants = sum(bytes_of(tensor) for tensor in program.constants)
    return {
        "weights, biases, scales": _bytes(array for array in arrays if array.name in _WEIGHTS) + constants,
        "tables of functions": _bytes(array for array in arrays if array.name not in _WEIGHTS),
        "plan": len(program.places) * _PLACE + len(program.calls) * _STEP + reads * _READ,
    }


def _arrays(kernel: Kernel) -> Iterator[Array]:
    members: Mapping[str, Value] = kernel.members or {}
    for value in members.values():
        if isinstance(value, Array):
            yield value


def _bytes(arrays: Iterator[Array]) -> int:
    return sum(len(array.values) * _ELEMENTS[array.kind] for array in arrays)


# --- What a compiler makes of it ------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompiledSizes:
    """Bytes by a compiler."""

    compiler: str
    """The compiler's command, options and target."""
    code: int
    """All functions of the network and the kernels."""
    stack: int
    """The deepest calls, at most, as `make stack` in the folder computes it."""


def compiled_sizes(texts: Mapping[str, str], prefix: str) -> CompiledSizes | str:
    """What a compiler makes of the files of a folder; or why that is not known.

    The compiler, its options and the tool that reads objects are those of the Makefile: CC, CFLAGS and SIZE.
    """
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    flags = shlex.split(os.environ.get("CFLAGS", "")) or ["-O2"]
    size = shlex.split(os.environ.get("SIZE", "")) or ["size"]
    for tool in (compiler[0], size[0]):
        if shutil.which(tool) is None:
            return f"there is no {tool} here"
    with tempfile.TemporaryDirectory(prefix="moccasin-") as name:
        folder, objects = Path(name), [f"{prefix}.o", "kernels.o"]
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")

        def printed(*command: str) -> str:
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True,
                                  timeout=_SECONDS).stdout  # fmt: skip

        try:
            target = printed(*compiler, "-dumpmachine").strip()
            sources = (f"{prefix}.c", "kernels.c")
            printed(*compiler, "-std=c99", "-ffunction-sections", "-fdata-sections", *flags, "-fstack-usage", "-c",
                    *sources)  # fmt: skip
            code = _code(printed(*size, "-A", *objects))
            usage = "".join((folder / each).with_suffix(".su").read_text(encoding="utf-8") for each in objects)
            return CompiledSizes(f"{' '.join((*compiler, *flags))}, {target}", code, _deepest(usage))
        except (OSError, subprocess.SubprocessError, ValueError):
            return f"{compiler[0]} or {size[0]} cannot measure it"


def _code(listed: str) -> int:
    """Bytes of sections with code in what `size -A` prints."""
    rows = (line.split() for line in listed.splitlines())
    return sum(int(row[1]) for row in rows if len(row) > 2 and row[0].startswith(".text"))


def _deepest(usage: str) -> int:
    """The stack of invoke, the runner, a kernel and two helpers, of lines that -fstack-usage writes."""
    invoke = run = kernel = 0
    helpers = [0, 0]
    for line in usage.splitlines():
        place, size, *_ = line.split("\t")
        name = place.rsplit(":", 1)[-1]
        if name.endswith("_invoke"):
            invoke = int(size)
        elif name.startswith("mc_run"):
            run = int(size)
        elif name.startswith("mc_"):
            kernel = max(kernel, int(size))
        else:
            helpers.append(int(size))
    return invoke + run + kernel + sum(sorted(helpers)[-2:])


# --- All of it ------------------------------------------------------------------------------------------------


def figures(program: Program, compiled: CompiledSizes | str) -> JsonObject:
    """What a program takes, as numbers; null: not known."""
    known = compiled if isinstance(compiled, CompiledSizes) else None
    return {
        "macs": round(program.network.graph.total_duration * program.work), "flash": flash(program),
        "code": None if known is None else known.code, "stack": None if known is None else known.stack,
        "compiler": None if known is None else known.compiler,
    }  # fmt: skip


def summary(program: Program, compiled: CompiledSizes | str) -> str:
    """A table of what a program takes."""
    network = program.network
    ends = sum(map(bytes_of, (*network.inputs, *network.outputs)))
    code, stack = f"{compiled}: make size", f"{compiled}: make stack"
    if isinstance(compiled, CompiledSizes):
        code, stack = f"{compiled.code:,} bytes by {compiled.compiler}", f"at most {compiled.stack:,} bytes, likewise"
    rows = {
        "multiply-adds": f"{round(network.graph.total_duration * program.work):,}",
        "memory, arena": f"{program.arena:,} bytes",
        "memory, inputs and outputs": f"{ends:,} bytes, the caller's",
        **{f"flash, {kind}": f"{size:,} bytes" for kind, size in flash(program).items()},
        "flash, code": code,
        "stack, deepest calls": stack,
    }
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in rows.items())
