"""What a program takes of a device: multiply-adds, memory, and flash by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moccasin_mzn.deploy.c.kernels import Array, Kernel, Value
from moccasin_mzn.deploy.c.network import bytes_of
from moccasin_mzn.deploy.c.program import Program

_ELEMENTS = {"int8_t": 1, "uint16_t": 2, "int32_t": 4, "float": 4, "mc_between": 6, "mc_factor": 8, "mc_double": 12}
"""Bytes of an element of a constant array, by its type."""
_WEIGHTS = ("weights", "bias", "factors")
"""Arrays that hold what was trained, and its scales."""
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


def summary(program: Program) -> str:
    """A table of what a program takes; code and stack depend on the compiler, and `make` measures them."""
    network = program.network
    ends = sum(map(bytes_of, (*network.inputs, *network.outputs)))
    rows = {
        "multiply-adds": f"{round(network.graph.total_duration * program.work):,}",
        "memory, arena": f"{program.arena:,} bytes",
        "memory, inputs and outputs": f"{ends:,} bytes, the caller's",
        **{f"flash, {kind}": f"{size:,} bytes" for kind, size in flash(program).items()},
        "flash, code": "make size",
        "stack, deepest calls": "make stack",
    }
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in rows.items())
