"""Files that go with a graph: schedules made here or elsewhere, and input orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.files import load_json, load_text, parse_json
from moccasin_mzn.graphs.formats.fields import column, objects
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import Interval


@dataclass(frozen=True)
class ClaimedSchedule:
    """What a schedule file says; nothing of it is checked against the graph but that its nodes exist."""

    sequence: tuple[int, ...]
    """Positions of nodes in `graph.nodes`, in the order of computing them."""
    intervals: tuple[Interval, ...] | None = None
    """Retention intervals claimed, closed, positions from 1; None if the file has none."""
    peak: int | None = None
    """Peak memory claimed, in the graph's size unit."""
    duration: int | None = None
    """Total duration claimed, in the graph's duration unit."""
    budget: int | None = None
    """Budget the schedule was made for, in the graph's size unit."""
    offsets: tuple[int, ...] | None = None
    """Offset in the arena claimed for each of `intervals`; None if the file has none."""
    arena: int | None = None
    """Size of the arena claimed, in the graph's size unit."""
    alignment: int | None = None
    """What all offsets claim to be multiples of."""


def read_schedule(path: str | PathLike[str], graph: ComputationGraph) -> ClaimedSchedule:
    """Read a schedule of `graph`: a JSON list of node ids, or an object around one. ::

        {"sequence": ["a", "b", "a", "c"],
         "intervals": [{"node": "a", "start": 1, "end": 2, "offset": 0}, ...],
         "peak": 12, "duration": 40, "budget": 12, "arena": 12, "alignment": 4}

    All keys but "sequence" are optional, "offset" is so for all intervals together; other keys are ignored. An
    id may be written as text ("3" for 3).

    Raises:
        InputError: the file cannot be read or is broken, a node is not in the graph, a claim is not an integer.
    """
    document = load_json(path)
    try:
        return claimed_schedule(document, graph)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def claimed_schedule(document: Any, graph: ComputationGraph) -> ClaimedSchedule:
    """What the content of such a file says.

    Raises:
        InputError: it is broken, a node is not in the graph, a claim is not an integer.
    """
    if isinstance(document, list):
        return ClaimedSchedule(_positions(graph, "sequence", document))
    if not isinstance(document, dict):
        raise InputError(f"expected a list of node ids or an object, got {shown(document)}")
    if not isinstance(document.get("sequence"), list):
        raise InputError('expected a key "sequence" with a list of node ids')
    return ClaimedSchedule(
        sequence=_positions(graph, "sequence", document["sequence"]),
        intervals=_intervals(graph, document) if document.get("intervals") is not None else None,
        offsets=_offsets(document) if document.get("intervals") is not None else None,
        **{key: _claim(key, document.get(key)) for key in ("peak", "duration", "budget", "arena", "alignment")},
    )


def read_order(path: str | PathLike[str], graph: ComputationGraph) -> tuple[int, ...]:
    """Read an input order of `graph`: a JSON list of node ids, or text with one id per line (blank lines skipped).

    Returns:
        Positions of nodes; a topological order of the whole graph.

    Raises:
        InputError: the file cannot be read or is broken, or is not a topological order of `graph`.
    """
    text = load_text(path)
    try:
        if text.lstrip().startswith("["):
            order = _positions(graph, "order", parse_json(text, path))
        else:
            order = _positions_in_lines(graph, text)
        graph.check_order(order)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(f"{path}: ") else f"{path}: {message}") from None
    return order


def _positions(graph: ComputationGraph, what: str, ids: Sequence[Any]) -> tuple[int, ...]:
    found = []
    for at, node in enumerate(ids):
        try:
            found.append(graph.position_of(node))
        except InputError as error:
            raise InputError(f"{what}[{at}]: {error}") from None
    return tuple(found)


def _positions_in_lines(graph: ComputationGraph, text: str) -> tuple[int, ...]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                found.append(graph.position_of(line.strip()))
            except InputError as error:
                raise InputError(f"line {number}: {error}") from None
    return tuple(found)


def _intervals(graph: ComputationGraph, document: dict[str, Any]) -> tuple[Interval, ...]:
    values = objects(document, "intervals")
    nodes = _positions(graph, "intervals", column(values, "intervals", "node"))
    starts, ends = (column(values, "intervals", key) for key in ("start", "end"))
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if type(start) is not int or type(end) is not int:
            raise InputError(f"intervals[{at}]: start {shown(start)}, end {shown(end)}: expected integers")
    return tuple(map(Interval, nodes, starts, ends))


def _offsets(document: dict[str, Any]) -> tuple[int, ...] | None:
    values = objects(document, "intervals")
    if not any("offset" in value for value in values):
        return None
    found = column(values, "intervals", "offset")
    for at, offset in enumerate(found):
        if type(offset) is not int:
            raise InputError(f"intervals[{at}]: offset {shown(offset)} is not an integer")
    return tuple(found)


def _claim(key: str, value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise InputError(f'"{key}" is {shown(value)}, expected an integer >= 0')
    return value
