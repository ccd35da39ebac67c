"""What a node computes: the shape of its output, and which places of its inputs each place of it reads.

This is all that is needed to compute an output in parts, see `graphs.tiling`. ::

    CONV_2D, 3 x 3, stride 2, one row of padding above      row 0 reads rows    0, 1       (-1 is padding)
                                                            row 1 reads rows 1, 2, 3
    Reach(axis=1, stride=2, window=3, before=1)             row 2 reads rows 3, 4, 5

A node that copies, adds or scales element by element reads its own place; one that multiplies matrices reads along one
axis its own place, and along the other all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.graphs.checks import NodeId, as_tuple, check_optional

if TYPE_CHECKING:
    from numpy import ndarray

Shape = tuple[int, ...]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Reach:
    """The places along one axis of an input that a place along an axis of the output reads.

    Place o reads (o * stride - before + k * dilation) / divisor for k = 0..window - 1, rounded down, as far as there
    are such places; what is outside of the input is padding. The default reads place o itself.

    Raises:
        InputError: a stride, window, dilation or divisor below 1, an axis below 0, or what is no integer.
    """

    axis: int
    """An axis of the output."""
    stride: int = 1
    window: int = 1
    dilation: int = 1
    before: int = 0
    """Places of padding before the first one; less than 0: that number is left out."""
    divisor: int = 1
    """More than 1 where the output has more places than the input, as in resizing."""
    exact: bool = False
    """True: what is no multiple of the divisor reads nothing, as in transposed convolutions."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "exact":
                if type(value) is not bool:
                    raise InputError(f"exact is {shown(value)}, expected true or false")
            elif type(value) is not int or value < _LEAST.get(each.name, value):
                raise InputError(f"{each.name} is {shown(value)}, expected an integer{_least_text(each.name)}")

    @property
    def is_identity(self) -> bool:
        """Return whether each place reads itself and no other."""
        return self == Reach(self.axis)

    def places(self, start: int, stop: int, extent: int) -> ndarray:
        """The places that output places start..stop-1 read, ascending, of an axis of `extent` places."""
        import numpy as np

        first = np.arange(start, stop, dtype=np.int64) * self.stride - self.before
        met = (first[:, None] + np.arange(self.window, dtype=np.int64) * self.dilation).ravel()
        if self.exact:
            met = met[met % self.divisor == 0]
        met = np.unique(met // self.divisor)
        return met[(met >= 0) & (met < extent)]


_LEAST = {"axis": 0, "stride": 1, "window": 1, "dilation": 1, "divisor": 1}


def _least_text(name: str) -> str:
    return f" >= {_LEAST[name]}" if name in _LEAST else ""


@dataclass(frozen=True)
class Read:
    """One input of an operator that is no parameter.

    Raises:
        InputError: a malformed shape; another number of reaches than axes.
    """

    source: int | None
    """Position of the node that puts it out; None: an input of the network."""
    shape: Shape
    axes: tuple[Reach | None, ...]
    """For each axis which places are read; None: all, whatever place of the output is computed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "axes", as_tuple("axes", self.axes))
        if len(self.axes) != len(self.shape):
            raise InputError(f"{len(self.axes)} axes are given for the shape {list(self.shape)}")
        for each in self.axes:
            if each is not None and not isinstance(each, Reach):
                raise InputError(f"axes have {shown(each)}, expected what is read along each, or nothing")


@dataclass(frozen=True)
class Operator:
    """What a node computes.

    Raises:
        InputError: a malformed name or shape, or a reach along an axis that the output does not have.
    """

    name: str
    """As the model's format has it, such as "CONV_2D"."""
    shape: Shape
    """Shape of the output; empty: one number."""
    reads: tuple[Read, ...] = ()
    accumulator: int = 0
    """Bytes of an element of a partial result, where the operator may be computed as a chain of steps, each over some
    of what it reads whole, with results that are the same; 0: it may not."""
    unchanged: bool = False
    """True: it is a concatenation of all that it reads, in this order, and changes none of the elements."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name.isprintable():
            raise InputError(f"the operator is {shown(self.name)}, expected a printable name")
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "reads", as_tuple("reads", self.reads))
        if type(self.accumulator) is not int or self.accumulator < 0:
            raise InputError(f"accumulator is {shown(self.accumulator)}, expected an integer >= 0")
        if type(self.unchanged) is not bool:
            raise InputError(f"unchanged is {shown(self.unchanged)}, expected true or false")
        for read in self.reads:
            for reach in read.axes:
                if reach is not None and reach.axis >= len(self.shape):
                    raise InputError(f"axis {reach.axis} is not one of the shape {list(self.shape)}")

    @property
    def elements(self) -> int:
        """Number of elements of the output."""
        return prod(self.shape)


def aligned(shape: Sequence[int], put_out: Sequence[int]) -> tuple[Reach | None, ...]:
    """What is read along each axis of an input that is broadcast to the shape of the output."""
    offset = len(put_out) - len(shape)
    return tuple(own(offset + at) if extent == put_out[offset + at] else None for at, extent in enumerate(shape))


@cache
def own(axis: int) -> Reach:
    """The place itself, along an axis of the output."""
    return Reach(axis)


def _checked_shape(shape: object) -> Shape:
    extents = as_tuple("shape", shape)
    if not all(type(extent) is int and extent >= 0 for extent in extents):
        raise InputError(f"the shape is {shown(shape)}, expected integers >= 0")
    return extents


@dataclass(frozen=True)
class Part:
    """What a node of a tiled graph is: a part of the output of a layer, see `graphs.tiling`.

    Raises:
        InputError: a layer without a name; a malformed box.
    """

    layer: str
    """The id of the node that was cut into parts."""
    box: tuple[tuple[int, int], ...]
    """For each axis of the layer's output the first place, and the one after the last."""
    step: int | None = None
    """The number of the step, from 0, if the result is accumulated; None: it is computed at once."""

    def __post_init__(self) -> None:
        if type(self.layer) is not str or not self.layer:
            raise InputError(f"the layer of a part is {shown(self.layer)}, expected a name")
        box = tuple(as_tuple("box", each) for each in as_tuple("box", self.box))
        if not all(len(each) == 2 and set(map(type, each)) == {int} and 0 <= each[0] <= each[1] for each in box):
            raise InputError(f"the box of a part is {shown(self.box)}, expected pairs of first and last places")
        object.__setattr__(self, "box", box)
        if self.step is not None and (type(self.step) is not int or self.step < 0):
            raise InputError(f"the step of a part is {shown(self.step)}, expected an integer >= 0")


# --- Of the nodes of a graph ----------------------------------------------------------------------------------


def check_operators(
    nodes: tuple[NodeId, ...], edges: tuple[tuple[int, int], ...], given: tuple[Operator | None, ...] | None
) -> tuple[Operator | None, ...] | None:
    """What nodes compute, where all that an operator reads is a predecessor, and the other way round; None where
    nothing is known."""
    check_optional(nodes, "operator", given, (Operator, NoneType), "an operator or None")
    if given is None or not any(given):
        return None
    inputs: list[set[int]] = [set() for _ in nodes]
    for tail, head in edges:
        inputs[head].add(tail)
    for v, operator in enumerate(given):
        if operator is not None and {each.source for each in operator.reads} - {None} != inputs[v]:
            raise InputError(f"node {nodes[v]}: its operator reads other nodes than its edges have")
    return given


def check_parts(nodes: tuple[NodeId, ...], given: tuple[Part | None, ...] | None) -> tuple[Part | None, ...] | None:
    """What parts nodes are; None where none is one."""
    check_optional(nodes, "part", given, (Part, NoneType), "a part of a layer or None")
    return given if given is not None and any(given) else None


# --- In files ------------------------------------------------------------------------------------------------


def reach_json(reach: Reach | None) -> Json:
    """As in a file: what is not the default, or null."""
    if reach is None:
        return None
    default = Reach(reach.axis)
    values = {each.name: getattr(reach, each.name) for each in fields(reach)}
    return {name: value for name, value in values.items() if name == "axis" or value != getattr(default, name)}


def operator_json(operator: Operator, nodes: Sequence[NodeId]) -> JsonObject:
    """As in a file, with ids of nodes for positions."""
    reads = [
        {
            "node": None if read.source is None else nodes[read.source],
            "shape": list(read.shape), "axes": list(map(reach_json, read.axes)),
        }
        for read in operator.reads
    ]  # fmt: skip
    made: JsonObject = {"name": operator.name, "shape": list(operator.shape), "reads": reads}
    made |= {"accumulator": operator.accumulator} if operator.accumulator else {}
    return made | ({"unchanged": True} if operator.unchanged else {})


def operator_of(value: Json, index: Mapping[NodeId, int]) -> Operator:
    """The operator that `operator_json` made.

    Args:
        index: positions of ids.

    Raises:
        InputError: it is malformed, or names a node that is not there.
    """
    found = _object(value, "operator", ("name", "shape", "reads"), ("accumulator", "unchanged"))
    reads = []
    for at, each in enumerate(_list(found["reads"], "reads")):
        with located(f"reads[{at}]"):
            read = _object(each, "a read", ("node", "shape", "axes"), ())
            node = read["node"]
            if node is not None and (type(node) not in (int, str) or node not in index):
                raise InputError(f"node {shown(node)} is not in the graph")
            axes = tuple(_reach_of(axis) for axis in _list(read["axes"], "axes"))
            reads.append(Read(None if node is None else index[node], tuple(_list(read["shape"], "shape")), axes))
    more = {key: found[key] for key in ("accumulator", "unchanged") if key in found}
    return Operator(found["name"], tuple(_list(found["shape"], "shape")), tuple(reads), **more)


def part_json(part: Part) -> JsonObject:
    """As in a file."""
    made: JsonObject = {"layer": part.layer, "box": [list(each) for each in part.box]}
    return made | ({} if part.step is None else {"step": part.step})


def part_of(value: Json) -> Part:
    """The part that `part_json` made.

    Raises:
        InputError: it is malformed.
    """
    found = _object(value, "part", ("layer", "box"), ("step",))
    return Part(found["layer"], tuple(_list(found["box"], "box")), found.get("step"))


def _reach_of(value: Json) -> Reach | None:
    if value is None:
        return None
    optional = tuple(each.name for each in fields(Reach) if each.name != "axis")
    return Reach(**_object(value, "an axis", ("axis",), optional))


def _object(value: Json, what: str, wanted: Sequence[str], optional: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what} is {shown(value)}, expected an object")
    for key in wanted:
        if key not in value:
            raise InputError(f'{what} has no "{key}"')
    for key in value:
        if key not in (*wanted, *optional):
            raise InputError(f"{what} has the unknown key {shown(key)}")
    return value


def _list(value: Json, what: str) -> list[Json]:
    if not isinstance(value, list):
        raise InputError(f"{what} is {shown(value)}, expected a list")
    return value


def operators_in(nodes: Iterable[NodeId], given: Sequence[Mapping[str, Json]]) -> tuple[Operator | None, ...] | None:
    """The operators of nodes, from their values of "operator"; None if none has any.

    Raises:
        InputError: one is malformed; the message has its node.
    """
    ids = tuple(nodes)
    index = {node: at for at, node in enumerate(ids)}
    return _in(ids, given, "operator", lambda value: operator_of(value, index))


def parts_in(nodes: Iterable[NodeId], given: Sequence[Mapping[str, Json]]) -> tuple[Part | None, ...] | None:
    """What parts nodes are, from their values of "part"; None if none is one.

    Raises:
        InputError: one is malformed; the message has its node.
    """
    return _in(nodes, given, "part", part_of)


def _in(
    nodes: Iterable[NodeId], given: Sequence[Mapping[str, Json]], name: str, read: Callable[[Json], Found]
) -> tuple[Found | None, ...] | None:
    if not any(name in each for each in given):
        return None
    found = []
    for node, each in zip(nodes, given, strict=True):
        with located(f"node {shown(node)}"):
            found.append(read(each[name]) if each.get(name) is not None else None)
    return tuple(found)
