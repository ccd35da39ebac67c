"""A new ONNX model next to the one that it was made of: both run in ONNX Runtime on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_running import measured_apart
from moccasin_mzn.deploy.onnx_session import Measured, measured, options_of
from moccasin_mzn.graphs.importers.onnx.inference import infer
from moccasin_mzn.graphs.importers.onnx.model import title
from moccasin_mzn.graphs.importers.onnx.runtime import inputs_in, random_inputs, runtime, with_weights

if TYPE_CHECKING:
    import numpy
    import onnx


def equal(one: Sequence[object], other: Sequence[object]) -> bool:
    """Are these outputs the same, bit for bit?"""
    import numpy

    def same(a: object, b: object) -> bool:
        if isinstance(a, numpy.ndarray) and isinstance(b, numpy.ndarray):
            of_one_kind = a.dtype == b.dtype and a.shape == b.shape
            return of_one_kind and (bool((a == b).all()) if a.dtype == object else a.tobytes() == b.tobytes())
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return equal(a, b)
        return bool(a == b)

    return len(one) == len(other) and all(map(same, one, other))


ROUNDING = 64
"""This many units in the last place of the largest number of an output are rounding: ONNX Runtime adds the products of
a convolution in an order that depends on the size of the image, which makes up to 7 units in one layer."""


def rounding(one: Sequence[object], other: Sequence[object]) -> float:
    """By how much outputs differ, if they do so in floating point numbers alone: in units in the last place of the
    largest number of each output; infinite, if they differ otherwise."""
    import numpy

    def apart(a: object, b: object) -> float:
        if equal([a], [b]):
            return 0.0
        if not isinstance(a, numpy.ndarray) or not isinstance(b, numpy.ndarray) or a.dtype.kind != "f":
            return float("inf")
        if a.dtype != b.dtype or a.shape != b.shape or not (numpy.isfinite(a).all() and numpy.isfinite(b).all()):
            return float("inf")
        return float(numpy.abs(a - b).max() / numpy.spacing(numpy.abs(a).max()))

    return max(map(apart, one, other), default=0.0) if len(one) == len(other) else float("inf")


@dataclass(frozen=True)
class Comparison:
    """A new model next to the one it was made of, on the same random inputs."""

    equal: bool | None
    """Are their outputs the same, bit for bit? None if they are not, as the model draws numbers."""
    rounding: float
    """By how much they differ, see `rounding`."""
    peak: int
    """Peak of the new model, measured, in bytes; see `Measured`."""
    former_peak: int
    """Peak of the former model in the same kind of session, that is in the order of its file."""
    usual_peak: int
    """Peak of the former model in the order that ONNX Runtime chooses by default, without graph optimizations."""
    late: str | None
    """The value of the new model that came late, see `Measured`."""

    @property
    def is_rounded(self) -> bool:
        """Do outputs differ by rounding alone, see `ROUNDING`?"""
        return self.rounding <= ROUNDING


@dataclass(frozen=True)
class Reference:
    """A model that was run, in one thread, to compare others with it."""

    model: onnx.ModelProto
    inputs: Mapping[str, numpy.ndarray]
    """The inputs of the run, by name."""
    in_order: Measured
    """In the order of its file."""
    usual: Measured
    """In the order that ONNX Runtime chooses by default, without graph optimizations."""
    folder: Path
    """The folder of external files of weights."""
    shared_views: bool
    in_place: bool
    apart: bool = False
    """Models run in a process of their own, which ONNX Runtime may end."""

    def unlike(self) -> dict[str, str]:
        """By value whose shape is another one than is inferred, or was declared, what is to be reported about it."""
        shapes, makers = infer(self.model, {}), {name: node for node in self.model.graph.node for name in node.output}
        return {
            name: f"{title(makers[name])} outputs {[*seen]} in ONNX Runtime {runtime().__version__}, not {[*expected]}"
            for name, seen in self.in_order.shapes.items()
            if (expected := shapes.of(name).shape) is not None and expected != seen
        }

    def compared(self, new: onnx.ModelProto, draws: bool = False) -> Comparison:
        """Run a model that was made of this one, and compare the two.

        Args:
            new: that model.
            draws: may this one output other numbers in each run?

        Raises:
            InputError: the new model does not run; see `with_weights`.
        """
        new = with_weights(new, self.folder)
        how = {"shared_views": self.shared_views, "in_place": self.in_place, "constants": True}
        try:
            (ours,) = _runs(new, self.inputs, (True,), how, self.apart)
        except InputError as error:
            raise InputError(f"the new model does not run: {error}") from None
        theirs = self.in_order
        same = equal(ours.outputs, theirs.outputs) or (None if draws else False)
        off = rounding(theirs.outputs, ours.outputs)
        return Comparison(same, off, ours.peak, theirs.peak, self.usual.peak, ours.late)


def reference_of(
    model: onnx.ModelProto,
    *,
    folder: Path,
    shared_views: bool = False,
    in_place: bool = False,
    inputs: str | PathLike[str] | None = None,
    seed: int = 0,
    apart: bool = False,
) -> Reference:
    """Run a model in both orders.

    Args:
        model: what to run.
        folder: of external files of weights.
        shared_views, in_place: as for `measured`.
        inputs: a file of NumPy with the inputs, see `inputs_in`; None: random ones.
        seed: of random inputs.
        apart: run it, and what is compared with it, in a process of its own, which ONNX Runtime may end.

    Raises:
        InputError: the model does not run; see `with_weights` and `inputs_in`; an input has a type without random
            values.
    """
    values = random_inputs(model, seed) if inputs is None else inputs_in(inputs, model)
    whole = with_weights(model, folder)
    how = {"shared_views": shared_views, "in_place": in_place}
    try:
        in_order, usual = _runs(whole, values, (True, False), how, apart)
    except InputError as error:
        raise InputError(f"the model itself does not run: {error}") from None
    return Reference(model, values, in_order, usual, folder, shared_views, in_place, apart)


def _runs(
    model: onnx.ModelProto, inputs: Mapping[str, numpy.ndarray], in_order: Sequence[bool], how: Mapping[str, bool],
    apart: bool,
) -> list[Measured]:  # fmt: skip
    if apart:
        return measured_apart(model, inputs, in_order, **how)
    return [measured(model, inputs, options_of(one), **how) for one in in_order]


def compare(
    new: onnx.ModelProto,
    former: onnx.ModelProto,
    *,
    folder: Path,
    draws: bool = False,
    shared_views: bool = False,
    in_place: bool = False,
    inputs: str | PathLike[str] | None = None,
    seed: int = 0,
) -> Comparison:
    """Run both, in one thread: see `reference_of` and `Reference.compared`.

    Raises:
        InputError: see there.
    """
    former_runs = reference_of(
        former, folder=folder, shared_views=shared_views, in_place=in_place, inputs=inputs, seed=seed
    )  # fmt: skip
    return former_runs.compared(new, draws)
