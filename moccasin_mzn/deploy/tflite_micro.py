"""What TensorFlow Lite Micro's arena takes: tensors in its head, and what lives as long as the interpreter in its tail.

The head is what a plan decides. The tail grows with every operator and every tensor, so that a network in many parts
takes more of it than it saves. It is measured by the interpreter of the package `tflite-micro`, in a process of its
own, or estimated by a formula, whose numbers are those that this interpreter reports of int8 networks whole and in
parts.
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

from moccasin_mzn.environment import own_environment
from moccasin_mzn.errors import InputError
from moccasin_mzn.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.tflite import operator_name, outputs

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT
    from numpy import ndarray

_BASE, _OPERATOR, _TENSOR = 780, 64, 24
"""Bytes of any interpreter, for each operator, and for each tensor."""
_KERNELS = {
    "CONCATENATION": 88, "CONV_2D": 104, "DEPTHWISE_CONV_2D": 104, "FULLY_CONNECTED": 96, "ADD": 80, "PAD": 72,
    "PADV2": 72, "SLICE": 0, "RESHAPE": 0, "SOFTMAX": 96, "AVERAGE_POOL_2D": 48, "MAX_POOL_2D": 48, "RELU": 48,
    "QUANTIZE": 48, "DEQUANTIZE": 32,
}  # fmt: skip
"""Bytes that a kernel keeps for each of its operators."""
_ANY_KERNEL = 64
_BY_CHANNEL = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""Kernels that keep two arrays of 32 bits for each channel put out."""
_SECONDS = 120
"""The interpreter is ended after so many."""
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
    """About how much of the tail a model takes whose operators are computed in a sequence.

    Args:
        graph: of the model.
        sequence: positions in the graph's nodes; each computation of an operator is an operator of its own.
    """
    subgraph = model.subgraphs[0]
    made = {x for operator in subgraph.operators for x in outputs(operator)}
    fixed = _BASE + _TENSOR * (len(subgraph.tensors) - len(made))
    takes = [_takes(model, operator) for operator in subgraph.operators]
    computed = (graph.nodes[v] for v in sequence)
    return fixed + sum(takes[node] for node in computed if isinstance(node, int))


def _takes(model: ModelT, operator: OperatorT) -> int:
    name, made = operator_name(model, operator), outputs(operator)
    found = _OPERATOR + _TENSOR * len(made) + _KERNELS.get(name, _ANY_KERNEL)
    if name in _BY_CHANNEL:
        found += 2 * (-(-4 * int(model.subgraphs[0].tensors[made[0]].shape[-1]) // 16) * 16)
    return found


# --- Measured, in a process of its own ------------------------------------------------------------------------


@dataclass(frozen=True)
class Runs:
    """Two models in TensorFlow Lite Micro."""

    former: Micro
    new: Micro
    equal: bool
    """Both put out the same, bit for bit."""


def is_installed() -> bool:
    """Return whether the interpreter is there."""
    return find_spec("tflite_micro") is not None


def measured(former: bytes, new: bytes, sets: Sequence[Sequence[ndarray]], results: int, arena: int) -> Runs | str:
    """Run two models; or why the former does not run.

    Args:
        sets: of inputs, one after the other.
        results: number of outputs of the network.
        arena: bytes for the interpreter: more than either takes.

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
        found = _reported(folder, {"sets": len(sets), "outputs": results, "arena": arena})
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
    """Run the models of a folder on its inputs, write what they put out, and print what their arenas take."""
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
