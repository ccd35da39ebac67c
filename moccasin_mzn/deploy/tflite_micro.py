"""What TensorFlow Lite Micro's arena takes: tensors in its head, and what lives as long as the interpreter in its tail.

The head is what a plan decides. The tail grows with every operator and every tensor, so that a network in many parts
takes more of it than it saves. It is measured by the interpreter of the package `tflite-micro`, in a process of its
own, or computed by a formula, whose numbers are those that this interpreter reports of int8 networks whole and in
parts, or 16 more, where blocks happen to lie closer together; of 64-bit machines, as those of 32 bits take less.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.environment import own_environment
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.tflite import operator_name, outputs

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT
    from numpy import ndarray

_ALIGNMENT = 16
"""Each of several blocks takes a multiple of this."""
_BASE, _RECORDS, _OPERATOR, _TENSOR = 488, 8, 64, 24
"""Bytes of any interpreter, of its lists, for each operator, and for each tensor."""
_END, _QUANTIZED = 72, 32
"""Bytes for each input and output of the network, and further ones where it has a scale."""
_KERNELS = {
    "CONCATENATION": (8, 80), "CONV_2D": (28, 80), "DEPTHWISE_CONV_2D": (28, 80), "FULLY_CONNECTED": (32, 80),
    "ADD": (8, 64), "MUL": (4, 48), "PAD": (0, 64), "PADV2": (0, 64), "SLICE": (0, 0), "RESHAPE": (40, 0),
    "SOFTMAX": (4, 80), "AVERAGE_POOL_2D": (40, 32), "MAX_POOL_2D": (40, 32), "RELU": (0, 32), "MEAN": (4, 48),
    "QUANTIZE": (0, 32), "DEQUANTIZE": (0, 32),
}  # fmt: skip
"""Bytes for each of a kernel's operators: of its options, and of what it prepares."""
_ANY_KERNEL = 8, 48
_BY_CHANNEL = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""Kernels that keep two arrays of 32 bits for each output channel."""
_SECONDS = 120
"""The interpreter is ended after this many seconds."""
MODELS = "former", "new"
MARGIN = 2**16
"""Bytes of an arena above what is expected."""


@dataclass(frozen=True)
class Micro:
    """Bytes of TensorFlow Lite Micro's arena."""

    tensors: int
    """The head, which a plan is for."""
    persistent: int
    """The tail."""
    measured: bool
    """By the interpreter; otherwise the tail is estimated, and the head is that of a plan."""

    @property
    def total(self) -> int:
        return self.tensors + self.persistent


# --- Estimated ------------------------------------------------------------------------------------------------


def persistent_of(model: ModelT, graph: ComputationGraph, sequence: Sequence[int]) -> int:
    """What a model takes of the tail whose operators are computed in a sequence, by a formula.

    Args:
        graph: of the model.
        sequence: positions in the graph's nodes; each computation of an operator is an operator of its own.
    """
    operators = model.subgraphs[0].operators
    return _persistent(model, [operators[x] for x in (graph.nodes[v] for v in sequence) if isinstance(x, int)])


def persistent_in(data: bytes) -> int:
    """What the model in the content of a file takes of the tail, by the same formula."""
    from ai_edge_litert.schema_py_generated import ModelT

    model = ModelT.InitFromPackedBuf(data, 0)
    return _persistent(model, model.subgraphs[0].operators)


def _persistent(model: ModelT, computed: Sequence[OperatorT]) -> int:
    """The tail: lists, what kernels prepare, and the ends of the network, each in whole multiples.

    Args:
        computed: operators of the first subgraph, one for each computation.
    """
    first, others = model.subgraphs[0], list(enumerate(model.subgraphs))[1:]
    once = {x for operator in first.operators for x in outputs(operator)}
    tensors = sum(len(each.tensors) for each in model.subgraphs) - len(once) + sum(len(outputs(x)) for x in computed)
    takes = [_takes(model, operator) for operator in computed]
    takes += [_takes(model, operator, at) for at, each in others for operator in each.operators]
    lists = _RECORDS + _OPERATOR * len(takes) + _TENSOR * tensors + sum(options for options, _ in takes)
    ends = [first.tensors[int(x)] for x in (*first.inputs, *first.outputs)]
    scaled = sum(each.quantization is not None and each.quantization.scale is not None for each in ends)
    return _up(_up(lists) + sum(prepared for _, prepared in takes) + _END * len(ends) + _QUANTIZED * scaled + _BASE)


def _up(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _takes(model: ModelT, operator: OperatorT, subgraph: int = 0) -> tuple[int, int]:
    """Bytes of the options of an operator, and of what its kernel prepares."""
    name = operator_name(model, operator)
    options, prepared = _KERNELS.get(name, _ANY_KERNEL)
    if name in _BY_CHANNEL:
        channels = model.subgraphs[subgraph].tensors[outputs(operator)[0]].shape[-1]
        prepared += 2 * _up(4 * int(channels))
    return options, prepared


# --- Measured, in a process of its own ------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """Two models in TensorFlow Lite Micro."""

    former: Micro
    new: Micro
    equal: bool
    """Both models output the same, bit for bit."""


def is_installed() -> bool:
    """Return whether the interpreter is there."""
    return find_spec("tflite_micro") is not None


def measured(former: bytes, new: bytes, sets: Sequence[Sequence[ndarray]], results: int, arena: int) -> Runs | str:
    """Run two models; or why the former does not run.

    Args:
        sets: of inputs, one after the other.
        results: number of outputs of the network.
        arena: bytes for the interpreter: more than either takes; rounded up, as the tail depends on where it ends.

    Raises:
        InputError: the former runs, and the new one does not.
    """
    import numpy as np

    with tempfile.TemporaryDirectory(prefix="moccasin-") as name:
        folder = Path(name)
        (folder / "former.tflite").write_bytes(former)
        (folder / "new.tflite").write_bytes(new)
        given = {f"{at} {k}": value for at, inputs in enumerate(sets) for k, value in enumerate(inputs)}
        np.savez(folder / "inputs.npz", **given)  # type: ignore[arg-type]
        found = _reported(folder, {"sets": len(sets), "outputs": results, "arena": _up(arena)})
        if isinstance(found, str) and (folder / "former.npz").exists():
            raise InputError(f"the new model: TensorFlow Lite Micro does not run it: {found}")
        if isinstance(found, str):
            return found
        outputs_of = [dict(np.load(folder / f"{model}.npz")) for model in MODELS]
    same = all(np.array_equal(value, outputs_of[1][key], equal_nan=value.dtype.kind == "f")
               for key, value in outputs_of[0].items())  # fmt: skip
    return Runs(found[0], found[1], same and outputs_of[0].keys() == outputs_of[1].keys())


def _reported(folder: Path, asked: JsonObject) -> list[Micro] | str:
    """What the interpreter reports of both models; or why it runs one of them not."""
    request = json.dumps({"folder": str(folder), **asked})
    command = [sys.executable, "-P", "-m", "moccasin_mzn.deploy.tflite_micro", request]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, check=False, env=own_environment(), text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it takes more than {_SECONDS} s"
    printed = done.stdout + done.stderr
    heads, tails = (re.findall(rf"Arena allocation {side} (\d+) bytes", printed) for side in ("head", "tail"))
    if done.returncode or len(heads) != len(MODELS) or len(tails) != len(MODELS):
        lines = [line for line in printed.splitlines() if line.strip() and not line.startswith("[")]
        return lines[-1].strip() if lines else f"it ends with status {done.returncode}"
    return [Micro(int(head), int(tail), measured=True) for head, tail in zip(heads, tails, strict=True)]


def main(request: str) -> None:
    """Run the models of a folder on its inputs, write what they output, and print what their arenas take."""
    import numpy as np
    from tflite_micro.python.tflite_micro import runtime  # type: ignore[import-untyped, import-not-found, unused-ignore]

    asked = json.loads(request)
    folder = Path(asked["folder"])
    inputs = np.load(folder / "inputs.npz")
    for model in MODELS:
        made = runtime.Interpreter.from_file(str(folder / f"{model}.tflite"), arena_size=asked["arena"])
        found: dict[str, ndarray] = {}
        for at in range(asked["sets"]):
            for name in (name for name in inputs.files if name.startswith(f"{at} ")):
                made.set_input(inputs[name], int(name.split()[1]))
            made.invoke()
            found |= {f"{at} {k}": made.get_output(k).copy() for k in range(asked["outputs"])}
        np.savez(folder / f"{model}.npz", **found)  # type: ignore[arg-type]
        made.print_allocations()
    sys.stdout.flush()
    os._exit(0)  # nothing that destructors print, or die of


if __name__ == "__main__":
    main(sys.argv[1])
