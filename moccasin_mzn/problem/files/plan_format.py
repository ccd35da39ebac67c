"""Schedules and plans as files for runtimes, in a format of its own version: `plan.schema.json` in this folder.

In addition to what schedules (`files.schedules`) and plans (`files.plans`) have, such a file has the digest of its
graph, and each interval, one for each step, has its size and the steps that wrote what is read: so it runs without a
graph::

    {"format": "moccasin_mzn plan", "version": 1, "graph_digest": "9f86...", "size_unit": "byte",
     "sequence": ["a", "b"],
     "intervals": [{"node": "a", "start": 1, "end": 2, "size": 8, "reads": [], "offset": 0},
                   {"node": "b", "start": 2, "end": 2, "size": 4, "reads": [1], "offset": 8}],
     "alignment": 4, "arena": 12, ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.files import Json, JsonObject, parse_json
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.zero_copy import difference
from moccasin_mzn.problem.files.plans import claimed_plan, devices_in, graph_of_plan, is_plan
from moccasin_mzn.problem.files.schedules import FORMAT, VERSION, check_version, claimed_schedule, is_versioned
from moccasin_mzn.problem.judges.certificates import graph_digest
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.problem.runtime_plan import ONE_MEMORY, RuntimePlan, Step, step_text
from moccasin_mzn.problem.validate import validate_plan, validate_schedule

KEYS = ("format", "version", "graph_digest", "size_unit")
"""The keys that this format adds to an object; their values are None without an answer, except the unit."""


def schema() -> JsonObject:
    """The JSON Schema of version 1."""
    file = resources.files(__package__) / "plan.schema.json"
    return parse_json(file.read_text(encoding="utf-8"), "plan.schema.json")


def versioned(graph: ComputationGraph, answer: Sequence[Json] | None, document: JsonObject) -> JsonObject:
    """An answer's object with what this format adds.

    Args:
        answer: a schedule's sequence or a plan's actions, which the judge has accepted or found over the budget only;
            None if absent.
        document: the answer's object, and more.
    """
    whole: JsonObject = {**dict.fromkeys(KEYS), "size_unit": graph.size_unit, **document}
    if answer is None:
        return whole
    actions = [of if isinstance(of, Action) else Action(of) for of in answer]
    plan = RuntimePlan.of(graph, actions, _names_in(document), devices=_devices_in(document))
    for interval, action, step in zip(document["intervals"], actions, plan.steps, strict=True):
        interval |= {"size": step.size, "reads": [r + 1 for r in step.reads]}
        interval |= {} if step.begin is None else {"begin": step.begin + 1}
        interval |= {"workspace": step.workspace} if step.workspace else {}
        interval |= {"adjacent": [[r + 1 for r in group] for group in step.adjacent]} if step.adjacent else {}
        if graph.labels:
            interval["label"] = graph.labels[action.node]
    return {**whole, "format": FORMAT, "version": VERSION, "graph_digest": plan.graph_digest}


def runtime_plan(document: Json, graph: ComputationGraph | None = None) -> RuntimePlan:
    """Return the steps of a runtime in the content of such a file.

    Args:
        graph: what the plan is to be a plan of; None: it is judged by its own figures only.

    Raises:
        InputError: it is in another format or of another version, broken, or not so; see `RuntimePlan`; with a graph
            also: the plan is of another one, or the judge refuses it.
    """
    check_version(document)
    if not is_versioned(document):
        raise InputError(f'no plan for runtimes: expected an object whose "format" is "{FORMAT}"')
    if ("sequence" in document) == ("plan" in document):
        raise InputError('expected one of "sequence" and "plan"')
    names, steps = _steps(document)
    found = RuntimePlan(
        tuple(steps), document.get("graph_digest"), names, document.get("alignment", 1),
        _text(document, "graph", ""), _text(document, "size_unit", "unit"), _devices_in(document),
    )  # fmt: skip
    _check_arenas(document, found)
    if graph is not None:
        _check_against(document, found, graph)
    return found


def _names_in(document: JsonObject) -> tuple[str, ...]:
    """Names of the memories of an answer's object."""
    platform = document.get("platform") or {}
    return tuple(memory["name"] for memory in platform.get("memories", ())) or ONE_MEMORY


def _devices_in(document: JsonObject) -> tuple[int, ...]:
    """Return the devices of the memories of an answer's object."""
    platform = document.get("platform")
    return devices_in(platform) if isinstance(platform, dict) and "plan" in document else ()


def _text(document: JsonObject, key: str, default: str) -> str:
    value = document.get(key, default)
    if type(value) is not str:
        raise InputError(f"{key} {shown(value)} is not a string")
    return value


def _steps(document: JsonObject) -> tuple[tuple[str, ...], list[Step]]:
    """Names of memories, and the steps, which have not been checked yet."""
    several = "plan" in document
    done = _list(document, "plan" if several else "sequence")
    names = _memories(document) if several else ONE_MEMORY
    intervals = _list(document, "intervals")
    if len(intervals) != len(done):
        raise InputError(f"intervals: {len(intervals)} for {len(done)} steps, expected one for each")
    steps = []
    for at, (one, interval) in enumerate(zip(done, intervals, strict=True)):
        with located(f"intervals[{at}]"):
            if not isinstance(interval, dict):
                raise InputError(f"expected an object, got {shown(interval)}")
            node, memory, source = _action(names, one) if several else (one, 0, None)
            expected = [node, at + 1, names[memory] if several else None]
            found = [interval.get("node"), interval.get("start"), interval.get("memory")]
            if type(node) not in (int, str) or [*map(str, expected)] != [*map(str, found)]:
                raise InputError(f"node, start, memory: {shown(found)}, but the step has {shown(expected)}")
            steps.append(_step(interval, node, memory, source))
    return names, steps


def _step(interval: JsonObject, node: Json, memory: int, source: int | None) -> Step:
    for key in ("end", "size", "reads"):
        if key not in interval:
            raise InputError(f'expected a key "{key}"')
    reads, end, begin = interval["reads"], interval["end"], interval.get("begin")
    if not isinstance(reads, list) or any(type(r) is not int for r in (*reads, end)):
        raise InputError(f"end {shown(end)}, reads {shown(reads)}: expected an integer, and a list of integers")
    return Step(
        node, tuple(r - 1 for r in reads), end - 1, interval["size"], memory, source, interval.get("offset"),
        begin - 1 if type(begin) is int else begin, interval.get("workspace", 0), interval.get("workspace_offset"),
        _groups(interval.get("adjacent", [])),
    )  # fmt: skip


def _groups(given: Json) -> tuple[tuple[int, ...], ...]:
    """Steps that are read as one, counted from 0, of lists of them, counted from 1."""
    fine = isinstance(given, list) and all(isinstance(group, list) for group in given)
    if not fine or any(type(r) is not int for group in given for r in group):
        raise InputError(f"adjacent {shown(given)}: expected lists of integers")
    return tuple(tuple(r - 1 for r in group) for group in given)


def _list(document: JsonObject, key: str) -> list[Json]:
    if not isinstance(document.get(key), list):
        raise InputError(f"{key}: expected a list, got {shown(document.get(key))}")
    return document[key]


def _memories(document: JsonObject) -> tuple[str, ...]:
    platform = document.get("platform")
    memories = platform.get("memories") if isinstance(platform, dict) else None
    if not isinstance(memories, list) or not all(isinstance(one, dict) for one in memories):
        raise InputError("platform.memories: expected a list of objects")
    names = tuple(one.get("name") for one in memories)
    if not all(type(name) is str for name in names) or len({*names}) < len(names):
        raise InputError(f"platform.memories: names {shown(names)}, expected texts that differ")
    return names


def _action(names: tuple[str, ...], one: Json) -> tuple[Json, int, int | None]:
    """Node, memory and source of an action."""
    entry = one if isinstance(one, dict) else {}
    copied = "copy" in entry
    if copied == ("compute" in entry):
        raise InputError(f'the step is {shown(one)}, expected {{"compute", "in"}} or {{"copy", "from", "to"}}')
    places = [entry.get(key) for key in (("to", "from") if copied else ("in",))]
    for place in places:
        if place not in names:
            raise InputError(f"unknown memory {shown(place)}, {one_of(place, names)}")
    target, *source = (names.index(place) for place in places)
    return entry["copy" if copied else "compute"], target, source[0] if copied else None


def _check_arenas(document: JsonObject, found: RuntimePlan) -> None:
    claimed = {"arena": document.get("arena")}
    if found.memories != ONE_MEMORY or "plan" in document:
        arenas = document.get("arenas", {})
        if not isinstance(arenas, dict) or not all(isinstance(one, dict) for one in arenas.values()):
            raise InputError("arenas: expected an object of objects")
        claimed = {name: one.get("arena") for name, one in arenas.items()}
    for name, size in claimed.items() if found.placed else ():
        if name not in ("arena", *found.memories):
            raise InputError(f"arenas: unknown memory {shown(name)}, {one_of(name, found.memories)}")
        true = found.arenas[0 if name == "arena" and "plan" not in document else found.memories.index(name)]
        if type(size) is not int or size != true:
            raise InputError(f"arena {shown(size)}{'' if name == 'arena' else f' of {name}'}, the steps end at {true}")


def _check_against(document: JsonObject, found: RuntimePlan, graph: ComputationGraph) -> None:
    if is_plan(document):
        graph = graph_of_plan(document, graph)
    digest = graph_digest(graph)
    if found.graph_digest != digest and (text := difference(document, graph)):
        raise InputError(f"the plan was {text}")
    if found.graph_digest != digest:
        raise InputError(f"plan of the graph {found.graph_digest[:12]}, this graph is {digest[:12]}")
    if is_plan(document):
        violations = validate_plan(claimed_plan(document, graph)).violations
    else:
        violations = validate_schedule(graph, claimed_schedule(document, graph), None)
    if violations:
        raise InputError(violations[0].message)
    actions = found.actions(graph)
    offsets = [step.offset or 0 for step in found.steps] if found.placed else None
    places = [step.workspace_offset for step in found.steps]
    true = RuntimePlan.of(graph, actions, found.memories, offsets, found.alignment, places, found.devices)
    for at, (claimed, other) in enumerate(zip(found.steps, true.steps, strict=True)):
        for what in ("reads", "end", "size", "begin", "workspace", "adjacent"):
            if getattr(claimed, what) != getattr(other, what):
                pair = [_in_file(step, what) for step in (claimed, other)]
                raise InputError(f"{step_text(at, claimed)}: {what} {pair[0]}, by the graph {pair[1]}")


def _in_file(step: Step, what: str) -> str:
    """What a step has, as it stands in the file, where steps are counted from 1."""
    if what == "reads":
        return shown([read + 1 for read in step.reads])
    value = getattr(step, what)
    if what == "adjacent":
        return shown([[read + 1 for read in group] for group in value])
    return str(value + 1 if what in ("begin", "end") and value is not None else value)
