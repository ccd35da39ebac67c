"""Platforms, goals and plans as JSON documents, and back: nodes by id, memories by name.

What runs the plan stands in the same file, so that a file can be judged without knowing how it was made::

    {"plan": [{"compute": "a", "in": "local"}, {"copy": "a", "from": "local", "to": "slow"}, ...],
     "goal": {"objective": "duration", "max_traffic": 100},
     "platform": {"memories": [{"name": "local", "budget": 12, "durations": [3, null], "energies": [3, null]}, ...],
                  "links": [{"from": "local", "to": "slow", "durations": [1, 2], "energies": [0, 0]}, ...]},
     "duration": 40, "energy": 40, "traffic": 9, "peaks": {"local": 12, "slow": 9}}

Memories of one device have `"one_device": true` in the platform, no links, and what an access takes, `"accesses"`, for
each node, in the memories where it takes something.

With addresses there is also, where every offset counts in the arena of the interval's memory::

    {"intervals": [{"node": "a", "memory": "local", "start": 1, "end": 2, "offset": 0}, ...],
     "alignment": 4, "arenas": {"local": {"arena": 12}, "slow": {"arena": 9}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.files import Json, JsonObject, load_json
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import single_outputs
from moccasin_mzn.problem.files.schedules import amount, check_version, positions
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Goal, Link, Memory, Plan, Platform


def plan_document(platform: Platform, plan: Plan) -> list[JsonObject]:
    """The actions of a plan the judge accepts, by names."""
    nodes, names = platform.graph.nodes, [memory.name for memory in platform.memories]
    return [
        {"compute": nodes[action.node], "in": names[action.memory]}
        if action.source is None
        else {"copy": nodes[action.node], "from": names[action.source], "to": names[action.memory]}
        for action in plan
    ]


def platform_document(platform: Platform) -> JsonObject:
    """Budgets and costs, one for each node in the order of the graph's file."""
    names = [memory.name for memory in platform.memories]
    return {
        **_devices(platform),
        "memories": [
            {name: [*value] if isinstance(value, tuple) else value for name, value in vars(memory).items()
             if name != "accesses" or value is not None}
            for memory in platform.memories
        ],
        "links": [
            {"from": names[link.source], "to": names[link.target], "durations": [*link.durations],
             "energies": [*link.energies]}
            for link in platform.links
        ],
    }  # fmt: skip


def _devices(platform: Platform) -> JsonObject:
    if not platform.has_accesses:
        return {}
    return {"devices": [*platform.devices]} if any(platform.devices) else {"one_device": True}


def goal_document(goal: Goal) -> JsonObject:
    """The objective and the limits that there are."""
    limits = {f"max_{what}": goal.limit(what) for what in OBJECTIVES}
    return {"objective": goal.objective, **{name: limit for name, limit in limits.items() if limit is not None}}


@dataclass(frozen=True)
class ClaimedInterval:
    """A copy in a memory at all positions start..end, and where it claims to lie in the arena there."""

    node: int
    memory: int
    start: int
    end: int
    offset: int
    workspace_offset: int | None = None
    """Where the workspace of the computation claims to lie, in the same arena; None: it has no place."""


@dataclass(frozen=True)
class ClaimedPlan:
    """The content of a plan file; the plan is not judged, its nodes and memories exist."""

    platform: Platform
    plan: Plan
    goal: Goal = Goal()
    totals: tuple[tuple[str, int], ...] = ()
    """Totals claimed, by objective."""
    peaks: tuple[tuple[int, int], ...] = ()
    """Peaks claimed, by position of the memory."""
    placed: tuple[ClaimedInterval, ...] | None = None
    """Retention intervals with their offsets; None if the file has no offsets."""
    arenas: tuple[tuple[int, int], ...] = ()
    """Sizes of arenas claimed, by position of the memory."""
    alignment: int = 1
    """All offsets claim to be multiples of this number."""

    def on(self, platform: Platform) -> Plan:
        """The plan on another platform: by names of memories if both have the same ones, else by their positions.

        Where outputs of an operation are one here, see `graph_of_plan`, and are nodes there, each is computed or copied
        with its first one.
        """
        own, other = ([memory.name for memory in one.memories] for one in (self.platform, platform))
        to = [other.index(name) for name in own] if set(own) == set(other) else range(len(own))
        nodes, graph = self.platform.graph.nodes, platform.graph
        merged = len(nodes) < len(graph.nodes)
        return tuple(
            Action(v, to[action.memory], None if action.source is None else to[action.source])
            for action in self.plan
            for first in [graph.position_of(nodes[action.node])]
            for v in (first, *(graph.outputs_of[first] if merged else ()))
        )


def is_plan(document: Json) -> bool:
    """Does a JSON document look like that of a plan?"""
    return isinstance(document, dict) and "plan" in document


def read_plan(path: str | PathLike[str], graph: ComputationGraph) -> ClaimedPlan:
    """Read a plan of `graph` as `solve --output` writes it; see the module.

    Raises:
        InputError: the file cannot be read or is broken, or a node or a memory is not there.
    """
    document = load_json(path, Page.PLAN_FORMAT)
    with located(path), explained(Page.PLAN_FORMAT):
        return claimed_plan(document, graph)


def claimed_plan(document: Json, graph: ComputationGraph) -> ClaimedPlan:
    """Return the plan in the content of such a file; see `read_plan`."""
    if not is_plan(document) or not isinstance(document["plan"], list):
        raise InputError('expected an object with a key "plan" and a list of actions')
    check_version(document)
    platform = platform_of(graph_of_plan(document, graph), document.get("platform"))
    goal, plan = goal_in(document.get("goal")), plan_of(platform, document["plan"])
    return ClaimedPlan(platform, plan, goal, *_claims(platform, document), **_offsets(platform, document))


def graph_of_plan(document: JsonObject, graph: ComputationGraph) -> ComputationGraph:
    """The graph that a plan's file is about: in older ones outputs of one operation are one, see `single_outputs`."""
    platform = document.get("platform")
    memories = platform.get("memories") if isinstance(platform, dict) else None
    lists = [one.get("durations") for one in memories if isinstance(one, dict)] if isinstance(memories, list) else []
    operations = {*graph.operation_of}
    older = any(isinstance(of, list) and len(of) == len(operations) < len(graph.nodes) for of in lists)
    return single_outputs(graph) if older else graph


def platform_of(graph: ComputationGraph, document: Json) -> Platform:
    """The platform that `platform_document` describes.

    Raises:
        InputError: it is broken.
    """
    described = document if isinstance(document, dict) else {}
    memories, links = (_objects(f"platform.{key}", described.get(key)) for key in ("memories", "links"))
    known = []
    for at, entry in enumerate(memories):
        where = f"platform.memories[{at}]"
        lists = [None if entry.get(key) is None else _list(entry, where, key) for key in _AMOUNTS]
        name = entry.get("name")
        if not isinstance(name, str):
            raise InputError(f"{where}: expected a name, got {shown(name)}")
        known.append(Memory(name, entry.get("budget"), *lists))
    names = {memory.name: m for m, memory in enumerate(known)}
    between = []
    for at, entry in enumerate(links):
        where = f"platform.links[{at}]"
        source, target = (_memory(names, where, entry.get(key)) for key in ("from", "to"))
        durations, energies = (_list(entry, where, key) for key in ("durations", "energies"))
        between.append(Link(source, target, durations, energies))
    return Platform(graph, tuple(known), tuple(between), devices_in(described))


def devices_in(described: JsonObject) -> tuple[int, ...]:
    """Return `Platform.devices` of a platform as it is described.

    Raises:
        InputError: it is broken.
    """
    one, devices = described.get("one_device", False), described.get("devices", [])
    if type(one) is not bool or not isinstance(devices, list) or (one and devices):
        raise InputError(f"one_device {shown(one)}, devices {shown(devices)}: expected true or false, or a list")
    memories = described.get("memories")
    return (0,) * len(memories) if one and isinstance(memories, list) else tuple(devices)


_AMOUNTS = ("durations", "energies", "accesses")


def plan_of(platform: Platform, document: list[Json]) -> Plan:
    """The plan that `plan_document` describes.

    Raises:
        InputError: it is broken.
    """
    names = _names(platform)
    return tuple(_action(platform.graph, names, f"plan[{at}]", entry) for at, entry in enumerate(document))


def _names(platform: Platform) -> dict[str, int]:
    return {memory.name: m for m, memory in enumerate(platform.memories)}


def _action(graph: ComputationGraph, names: dict[str, int], where: str, entry: Json) -> Action:
    if isinstance(entry, dict) and ("compute" in entry) != ("copy" in entry):
        copied = "copy" in entry
        with located(where):
            v = graph.position_of(entry["copy" if copied else "compute"])
        target = _memory(names, where, entry.get("to" if copied else "in"))
        return Action(v, target, _memory(names, where, entry.get("from")) if copied else None)
    raise InputError(f'{where}: expected {{"compute", "in"}} or {{"copy", "from", "to"}}, got {shown(entry)}')


def _memory(names: dict[str, int], where: str, name: Json) -> int:
    if not isinstance(name, str) or name not in names:
        raise InputError(f"{where}: unknown memory {shown(name)}, {one_of(name, names)}")
    return names[name]


def _objects(what: str, found: Json) -> list[JsonObject]:
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise InputError(f"{what}: expected a list of objects")
    return found


def _list(entry: JsonObject, where: str, key: str) -> tuple[Json, ...]:
    values = entry.get(key)
    if not isinstance(values, list):
        raise InputError(f"{where}.{key}: expected a list, got {shown(values)}")
    return tuple(values)


def goal_in(document: Json) -> Goal:
    """The goal that `goal_document` describes.

    Raises:
        InputError: it is broken.
    """
    if document is None:
        return Goal()
    known = {"objective", *(f"max_{what}" for what in OBJECTIVES)}
    if not isinstance(document, dict) or not set(document) <= known:
        raise InputError(f"goal: expected an object with keys of {', '.join(sorted(known))}")
    return Goal(**document)


def _claims(
    platform: Platform, document: JsonObject
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[int, int], ...]]:
    totals = tuple((what, amount(what, document[what])) for what in OBJECTIVES if document.get(what) is not None)
    peaks = document.get("peaks") or {}
    if not isinstance(peaks, dict):
        raise InputError(f"peaks: expected an object, got {shown(peaks)}")
    names = _names(platform)
    return totals, tuple((_memory(names, "peaks", name), amount(f"peaks.{name}", peaks[name])) for name in peaks)


def _offsets(platform: Platform, document: JsonObject) -> JsonObject:
    """Return the fields of a `ClaimedPlan` about arenas; none if the file has no offsets."""
    intervals = _objects("intervals", document.get("intervals") or [])
    if not any("offset" in entry for entry in intervals):
        return {}
    names, placed = _names(platform), []
    nodes = positions(platform.graph, "intervals", [entry.get("node") for entry in intervals])
    for at, (v, entry) in enumerate(zip(nodes, intervals, strict=True)):
        where, workspace = f"intervals[{at}]", entry.get("workspace_offset")
        start, end, offset = (amount(f"{where}.{key}", entry.get(key)) for key in ("start", "end", "offset"))
        if workspace is not None:
            workspace = amount(f"{where}.workspace_offset", workspace)
        placed.append(ClaimedInterval(v, _memory(names, where, entry.get("memory")), start, end, offset, workspace))
    arenas = document.get("arenas") or {}
    if not isinstance(arenas, dict) or not all(isinstance(arena, dict) for arena in arenas.values()):
        raise InputError("arenas: expected an object of objects")
    sizes = [(_memory(names, "arenas", name), amount(f"arenas.{name}", arenas[name].get("arena"))) for name in arenas]
    alignment = amount("alignment", document.get("alignment", 1))
    return {"placed": tuple(placed), "arenas": tuple(sizes), "alignment": alignment}
