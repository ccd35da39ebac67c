"""A deployed TFLite model and the one that it was made of, run on the same inputs: in LiteRT, and in TensorFlow Lite
Micro where its interpreter is there and has all operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.base.errors import InputError, located
from moccasin_mzn.deploy.c.reference import run
from moccasin_mzn.deploy.tflite_micro import MARGIN, Runs, is_installed, measured
from moccasin_mzn.graphs.importers.tflite import operator_name, schema, size_of, type_name

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT

LITE = "LiteRT's reference kernels"
UNCHECKED = "--no-check writes the new model without a run"
SETS = 2
"""Inputs that are run one after the other: what is kept from one to the next is compared as well."""
CHANCE = frozenset(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"))
"""Operators whose outputs are others in every run."""
_KINDS = {
    "FLOAT32": np.float32, "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "BOOL": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """What came of it."""

    equal: bool | None
    """Outputs are the same, bit for bit, in all that has run them; None: the model draws numbers."""
    lite: str
    """Why LiteRT has not run the model that the new one was made of; empty: it has run both."""
    micro: Runs | str
    """TensorFlow Lite Micro's; or why it has not run both."""

    @property
    def wrong(self) -> str:
        """What is wrong with the new model; empty: nothing."""
        if self.equal is not False:
            return ""
        in_micro = isinstance(self.micro, Runs) and not self.micro.equal
        return f"outputs are not equal in {'TensorFlow Lite Micro' if in_micro else LITE}"


def is_runtime_installed() -> bool:
    """Return whether LiteRT's interpreter is there."""
    return find_spec("ai_edge_litert") is not None and find_spec("ai_edge_litert.interpreter") is not None


def checked(former: bytes, new: bytes, seed: int, tail: int) -> Checked:
    """Run both.

    Args:
        seed: of the random inputs.
        tail: about how many bytes of TensorFlow Lite Micro's arena are persistent.

    Raises:
        InputError: neither LiteRT nor TensorFlow Lite Micro runs the former one; LiteRT does, and not the new one.
    """
    models = [schema().ModelT.InitFromPackedBuf(data, 0) for data in (former, new)]
    sets, lite = inputs_of(models[0], seed), ""
    try:
        expected = run(models[0], sets)
    except InputError as error:
        lite = str(error)
    micro = _in_micro(former, new, models, sets, tail)
    same = micro.equal if isinstance(micro, Runs) else not lite
    if lite and not isinstance(micro, Runs):
        raise InputError(f"{lite}; {UNCHECKED}")
    if not lite:
        with located("the new model"):
            found = run(models[1], sets)
        pairs = (pair for one, other in zip(expected, found, strict=True) for pair in zip(one, other, strict=True))
        same &= all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
    draws = any(operator_name(models[0], each) in CHANCE for each in models[0].subgraphs[0].operators)
    return Checked(None if draws else same, lite, micro)


def _in_micro(
    former: bytes, new: bytes, models: Sequence[ModelT], sets: Sequence[Sequence[np.ndarray]], tail: int
) -> Runs | str:
    if not is_installed():
        return "the package tflite-micro is not installed"
    sizes = (sum(size_of(model, x) for x in range(len(model.subgraphs[0].tensors))) for model in models)
    found = measured(former, new, sets, len(models[0].subgraphs[0].outputs), max(sizes) + 2 * tail + MARGIN)
    return found if isinstance(found, Runs) else f"TensorFlow Lite Micro does not run it: {found}"


def inputs_of(model: ModelT, seed: int) -> list[list[np.ndarray]]:
    """Random inputs.

    Raises:
        InputError: an input of a type that none are drawn of.
    """
    random, subgraph = np.random.default_rng(seed), model.subgraphs[0]

    def one(x: int) -> np.ndarray:
        kind = type_name(model, x)
        if kind not in _KINDS:
            raise InputError(f"input of {kind}: no numbers are drawn of it; {UNCHECKED}")
        dtype, shape = np.dtype(_KINDS[kind]), tuple(map(int, subgraph.tensors[x].shape))
        if dtype.kind == "f":
            return random.standard_normal(shape).astype(dtype)
        bits = 8 * dtype.itemsize  # larger ones are mostly numbers of something, such as places
        least = 0 if dtype.kind in "bu" or bits > 16 else -(1 << bits - 1)
        most = 2 if dtype.kind == "b" or bits > 16 else least + (1 << bits)
        return np.asarray(random.integers(least, most, shape), dtype)

    return [[one(int(x)) for x in subgraph.inputs] for _ in range(SETS)]
