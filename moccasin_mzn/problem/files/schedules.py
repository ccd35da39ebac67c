"""Files that go with a graph: schedules made here or elsewhere, and input orders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.files import Json, JsonObject, load_json, load_text, parse_json
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.formats.reader import column, objects
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import Interval


@dataclass(frozen=True)
class ClaimedSchedule:
    """The content of a schedule file; it is not judged, its nodes exist in the graph."""

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
    workspace_offsets: tuple[int | None, ...] = ()
    """Offset claimed for the workspace of each computation, in the order of `intervals`; empty without offsets."""
    arena: int | None = None
    """Size of the arena claimed, in the graph's size unit."""
    alignment: int | None = None
    """All offsets claim to be multiples of this number."""


def read_schedule(path: str | PathLike[str], graph: ComputationGraph) -> ClaimedSchedule:
    """Read a schedule of `graph`: a JSON list of node ids, or an object around one. ::

        {"sequence": ["a", "b", "a", "c"],
         "intervals": [{"node": "a", "start": 1, "end": 2, "offset": 0}, ...],
         "peak": 12, "duration": 40, "budget": 12, "arena": 12, "alignment": 4}

    All keys but "sequence" are optional, "offset" is so for all intervals together; other keys are ignored. An
    id may be written as text ("3" for 3). A certificate is a schedule too; its key is "schedule".

    Raises:
        InputError: the file cannot be read or is broken, a node is not in the graph, a claim is not an integer.
    """
    document = load_json(path, Page.PLAN_FORMAT)
    with located(path), explained(Page.PLAN_FORMAT):
        return claimed_schedule(document, graph)


def claimed_schedule(document: Json, graph: ComputationGraph) -> ClaimedSchedule:
    """Return the schedule in the content of such a file; see `read_schedule`."""
    if isinstance(document, list):
        return ClaimedSchedule(positions(graph, "sequence", document))
    if not isinstance(document, dict):
        raise InputError(f"expected a list of node ids or an object, got {shown(document)}")
    check_version(document)
    key = "schedule" if "schedule" in document and "sequence" not in document else "sequence"
    if not isinstance(document.get(key), list):
        raise InputError(f'expected a key "{key}" with a list of node ids')
    sequence = positions(graph, key, document[key])
    intervals, offsets, workspaces = (
        _intervals(graph, document) if document.get("intervals") is not None else (None, None, ())
    )
    claims = {key: document.get(key) for key in ("peak", "duration", "budget", "arena", "alignment")}
    amounts = {key: None if value is None else amount(f'"{key}"', value) for key, value in claims.items()}
    return ClaimedSchedule(sequence, intervals, offsets=offsets, workspace_offsets=workspaces, **amounts)


def read_order(path: str | PathLike[str], graph: ComputationGraph) -> tuple[int, ...]:
    """Read an input order of `graph`: a JSON list of node ids, or text with one id per line (blank lines skipped).

    Returns:
        Positions of nodes; a topological order of the whole graph.

    Raises:
        InputError: the file cannot be read or is broken, or is not a topological order of `graph`.
    """
    text = load_text(path)
    is_json = text.lstrip().startswith("[")
    ids = parse_json(text, path) if is_json else ()
    with located(path):
        order = positions(graph, "order", ids) if is_json else _positions_in_lines(graph, text)
        graph.check_order(order)
    return order


def positions(graph: ComputationGraph, what: str, ids: Sequence[Json]) -> tuple[int, ...]:
    """Positions of the nodes in a list that messages call `what`.

    Raises:
        InputError: one is not in the graph.
    """
    found = []
    for at, node in enumerate(ids):
        with located(f"{what}[{at}]"):
            found.append(graph.position_of(node))
    return tuple(found)


def amount(what: str, value: Json) -> int:
    """An integer >= 0 that a file claims.

    Raises:
        InputError: it is not one.
    """
    if type(value) is not int or value < 0:
        raise InputError(f"{what} is {shown(value)}, expected an integer >= 0")
    return value


def _positions_in_lines(graph: ComputationGraph, text: str) -> tuple[int, ...]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            with located(f"line {number}"):
                found.append(graph.position_of(line.strip()))
    return tuple(found)


def _intervals(
    graph: ComputationGraph, document: JsonObject
) -> tuple[tuple[Interval, ...], tuple[int, ...] | None, tuple[int | None, ...]]:
    """Retention intervals, the offset of each if there are any, and those of workspaces."""
    values = objects(document, "intervals")
    nodes = positions(graph, "intervals", column(values, "intervals", "node"))
    starts, ends = (column(values, "intervals", key) for key in ("start", "end"))
    placed = any("offset" in value for value in values)
    offsets = column(values, "intervals", "offset") if placed else [0] * len(values)
    workspaces = tuple(value.get("workspace_offset") for value in values) if placed else ()
    for at, offset in enumerate(workspaces):
        if offset is not None and type(offset) is not int:
            raise InputError(f"intervals[{at}]: workspace_offset {shown(offset)} is not an integer")
    for at, (start, end, offset) in enumerate(zip(starts, ends, offsets, strict=True)):
        if type(start) is not int or type(end) is not int:
            raise InputError(f"intervals[{at}]: start {shown(start)}, end {shown(end)}: expected integers")
        if type(offset) is not int:
            raise InputError(f"intervals[{at}]: offset {shown(offset)} is not an integer")
    return tuple(map(Interval, nodes, starts, ends)), tuple(offsets) if placed else None, workspaces


# --- How often nodes may be computed: a number, "auto", or a file with a count for each ------------------------


USUAL_COUNT = 2
"""The count of nodes that a file does not name."""


def parse_count(text: str) -> int | str | Path:
    """Read how often a node may be computed: a positive integer, "auto", or a file with a count for each node.

    Raises:
        InputError: it is not one of them.
    """
    if text == "auto":
        return text
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= 1:
        return int(text)
    if Path(text).is_file():
        return Path(text)
    raise InputError(f"max computations {shown(text)}: expected a positive integer, auto or a file")


def counts_of(given: Json, graph: ComputationGraph) -> Json:
    """C_v as `Instance.build` takes it, of that, a text or a file.

    Raises:
        InputError: see `parse_count` and `read_counts`.
    """
    most = parse_count(given) if isinstance(given, str) else given
    return read_counts(most, graph) if isinstance(most, PathLike) else most


def read_counts(path: str | PathLike[str], graph: ComputationGraph) -> tuple[int, ...]:
    """Read C_v for each node of `graph`: a JSON list in the order of its nodes, or an object from ids to counts. ::

        {"conv1": 1, "conv2": 4}

    Nodes that an object does not name may be computed twice; outputs of one operation as often as the least of those
    that it names. An id may be written as text ("3" for 3).

    Raises:
        InputError: the file cannot be read or is broken, a node is not in the graph, or a count is no integer.
    """
    document = load_json(path)
    with located(path):
        if isinstance(document, list):
            if len(document) != len(graph.nodes):
                raise InputError(f"{count_text(len(document), 'count')} for {count_text(len(graph.nodes), 'node')}")
            counts = dict(enumerate(document))
        elif isinstance(document, dict):
            counts = {graph.position_of(node): count for node, count in document.items()}
        else:
            raise InputError(f"expected a list of counts or an object of ids and counts, got {shown(document)}")
        for v, count in counts.items():
            if type(count) is not int or count < 1:
                raise InputError(f"node {graph.nodes[v]}: count {shown(count)} is not a positive integer")
    least = graph.least_of_operations(counts)
    return tuple(least.get(first, USUAL_COUNT) for first in graph.operation_of)


# --- Kinds of plans and their versions ------------------------------------------------------------------------

# There are two kinds: plans for runtimes, which `solve --output` writes and which have all that is needed to run
# them; and plans of PyTorch training steps, which `run torch --save` writes and which are of use only with the
# network.


FORMAT, VERSION = "moccasin_mzn plan", 1
TORCH_FORMAT = "moccasin_mzn PyTorch plan"
FORMER_TORCH_FORMAT = "moccasin_mzn plan 1"
"""The format of such files before they had a version, which is 1."""


def is_versioned(document: Json) -> bool:
    """True if a JSON document has the format of plans for runtimes. Older files without a format are plans, too."""
    return _format(document) == FORMAT


def is_torch_plan(document: Json) -> bool:
    """True if a JSON document has the format of plans of PyTorch training steps."""
    return _format(document) in (TORCH_FORMAT, FORMER_TORCH_FORMAT)


def check_version(document: Json) -> None:
    """Refuse a plan for runtimes of a version that is not known, and plans of PyTorch; what is neither is passed over.

    Raises:
        InputError: it is one.
    """
    if is_torch_plan(document):
        raise InputError(
            "a plan of a PyTorch training step, for `run torch --plan` and `Plan.load`; expected what `solve --output` "
            "writes"
        )
    if is_versioned(document):
        _check_number("plan", document.get("version"))


def check_torch_version(document: Json) -> None:
    """Refuse what is no plan of a PyTorch training step, or of a version that is not known.

    Raises:
        InputError: it is so.
    """
    if is_versioned(document):
        raise InputError(
            "a plan for runtimes, as `solve --output` writes it; expected one of a PyTorch training step, as "
            "`run torch --save` and `Plan.save` write it"
        )
    if not is_torch_plan(document):
        raise InputError(f'no plan of a PyTorch training step: expected an object whose "format" is "{TORCH_FORMAT}"')
    if document["format"] == TORCH_FORMAT:
        _check_number("PyTorch plan", document.get("version"))


def _format(document: Json) -> Json:
    return document.get("format") if isinstance(document, dict) else None


def _check_number(what: str, version: Json) -> None:
    if type(version) is not int or version != VERSION:
        raise InputError(f"{what} of version {shown(version)}, this program reads {VERSION}")
