"""Dimensions that an ONNX file leaves open, such as the batch: found, fixed, or asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown, some_of
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.graphs.importers.onnx_model import graph_inputs
from moccasin_mzn.graphs.importers.onnx_names import reads

if TYPE_CHECKING:
    import onnx

_NAMED = 8
"""So many dimensions are named in a message."""


def fix_dims(model: onnx.ModelProto, dims: Mapping[str, int]) -> dict[str, int]:
    """Write numbers for the open dimensions into the inputs of `model`.

    A dimension is open if it has no number, or 0 or -1, which some exporters write for it.

    Args:
        dims: numbers by name of the dimension ("batch"), or by input and axis ("x[0]"), which goes before the name.

    Returns:
        The numbers of the dimensions that have a name, but for names that mean several (some exporters write "?").

    Raises:
        InputError: a dimension of `dims` that is not in the file or has another number there; one open in an input
            that is read, and not in `dims`; a number that is none. The message lists what there is.
    """
    check_numbers(dims)
    places = _places(model)
    names = {place: dim.dim_param for place, dim in places.items() if dim.dim_param}
    open_places = [place for place, dim in places.items() if dim.dim_value <= 0]
    _check_keys(dims, places, names, open_places)
    missing = []
    numbers: dict[str, set[int]] = {}
    for place in open_places:
        number = dims.get(place, dims.get(names.get(place, place)))
        if number is None:
            missing.append(f"{place} ({names[place]})" if place in names else place)
        else:
            places[place].dim_value = number
            numbers.setdefault(names.get(place, ""), set()).add(number)
    if missing:
        raise InputError(f"give a number for each open dimension (--dim, dims), by place or name: {_some_of(missing)}")
    return {name: min(found) for name, found in numbers.items() if name and len(found) == 1}


def check_numbers(dims: Mapping[str, int]) -> None:
    """Are these numbers of dimensions?

    Raises:
        InputError: one is not.
    """
    for key, number in dims.items():
        if type(number) is not int or not 0 <= number <= TOTAL_LIMIT:
            raise InputError(f"dimension {shown(key)}: {shown(number)}, expected an integer from 0 to 2**53")


def _places(model: onnx.ModelProto) -> dict[str, onnx.TensorShapeProto.Dimension]:
    """The dimensions of the inputs that are read, by input and axis."""
    needed = {name for node in model.graph.node for name in reads(node)}
    places = {}
    for value in graph_inputs(model.graph):
        if value.name not in needed or not value.type.HasField("tensor_type"):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(f"input {shown(value.name)} has no shape in the file")
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < -1:
                raise InputError(f"input {shown(value.name)}: dimension {axis} is {dim.dim_value}")
            places[f"{value.name}[{axis}]"] = dim
    return places


def _check_keys(
    dims: Mapping[str, int],
    places: Mapping[str, onnx.TensorShapeProto.Dimension],
    names: Mapping[str, str],
    open_places: list[str],
) -> None:
    for key, number in dims.items():
        if key in names.values():
            continue
        if key not in places:
            there = [*dict.fromkeys(names.values()), *open_places]
            offer = f"there are {_some_of(there)}" if there else "the file leaves none open"
            raise InputError(f"no dimension {shown(key)}; {offer}")
        if key not in open_places and places[key].dim_value != number:
            raise InputError(f"dimension {shown(key)} is {places[key].dim_value} in the file, not {number}")


def _some_of(names: Iterable[str]) -> str:
    return some_of((shown(name)[1:-1] for name in names), _NAMED)
