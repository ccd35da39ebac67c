"""Requests: a problem and how to solve it as one object, the same for commands, functions, experiments and racers.

::

    arguments by name ── prepared ──> for a graph ─> Request ── solve.answer ──> Result
                                                      │   ▲
                                              to_json ▼   │ request_from_json
                                               stdin of a worker, see `worker`

A request in JSON has all that another process needs: graph, problem, options and an answer to start from::

    {"graph": {...}, "order": [0, 1, 2], "free_order": false, "budget": 12, "fixed": 0, "max_computations": 2,
     "in_place": false, "memories": null, "alignment": null, "strategy": null, "start": null,
     "options": {"formulation": "staged", "solver": "cp-sat", "time_limit": 60.0, ...}}

With several memories, "memories" is {"formulation": "paging", "staged": true, "platform": {...}, "goal": {...}} as in
the file of a plan; one for buffers is {"buffers": "CSV", "alignment": 1, "time_limit": 60.0, "threads": 1, "seed": 0}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeAlias

from moccasin_mzn.api.modes import refuse_ways
from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.extensions.pools.formulation import PoolsFormulation
from moccasin_mzn.files import JsonObject
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.formats.node_link import parse as parse_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.features import Feature, Features
from moccasin_mzn.problem.files.plans import (
    ClaimedPlan,
    goal_document,
    goal_in,
    platform_document,
    platform_of,
    read_plan,
)
from moccasin_mzn.problem.files.schedules import parse_count, read_counts, read_schedule
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.placing import check_places
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.problem.problem import Judged, Problem, Step
from moccasin_mzn.search.options import Effort, Options, SearchOptions, default_if_none
from moccasin_mzn.strategies import find_strategy, strategies
from moccasin_mzn.strategies.strategy import Strategy

Given: TypeAlias = Mapping[str, Any]
"""Arguments of `moccasin_mzn.solve` that are given, by name: as values of Python or as texts."""
Counts: TypeAlias = int | Sequence[int] | str
"""Number of computations that nodes may have, as `Instance.build` takes it."""
Memories = Callable[..., tuple[PlanProblem, PlanFormulation]]
"""Function that makes the problem of several memories: of a graph and, by name, `budget`, `order` and `count_fixed`."""


@dataclass(frozen=True)
class StrategyOptions(Effort):
    """Options of a strategy.

    Raises:
        InputError: the time limit makes no sense.
    """

    strategy: Strategy | None = None


def ways_in(options: Effort) -> Features:
    """Return the ways of asking that options stand for."""
    ways = {
        Feature.STRATEGY: isinstance(options, StrategyOptions),
        Feature.ITERATIONS: isinstance(options, Options) and options.iterations is not None,
        Feature.RACE: isinstance(options, SearchOptions) and len(options.solvers) > 1,
        Feature.OWN_MODEL: isinstance(options, Options) and bool(options.form.model),
    }
    return Features(way for way, wanted in ways.items() if wanted)


@dataclass(frozen=True)
class Request(Generic[Step, Judged]):
    """A problem, options of the search, and whether outputs get addresses.

    Raises:
        InputError: what is asked in a way that does not handle it; or an alignment at which what is read as one cannot
            lie side by side.
    """

    problem: Problem[Step, Judged]
    options: SearchOptions | StrategyOptions
    """Options of the search, its time limit among them."""
    formulation: PlanFormulation | None = None
    """The formulation of plans; None for one memory."""
    start: Sequence[Step] | None = None
    """A schedule or a plan within the budget to start from."""
    alignment: int | None = None
    """Outputs get offsets that are multiples of it, and the budget is for the arena; None: no offsets."""

    def __post_init__(self) -> None:
        refuse_ways(self.features)
        if self.alignment is not None:
            check_places(self.problem.graph, self.alignment)

    @property
    def features(self) -> Features:
        """What the problem has, and how it is asked about."""
        offsets = {Feature.OFFSETS} if self.alignment is not None else set()
        return self.problem.features.union(ways_in(self.options), offsets)

    def to_json(self) -> str:
        """Return the request as a worker reads it, see the module; a graph of any size takes one pass."""
        instance, options, start = self.problem.instance, self.options, self.start
        strategy = options.strategy.name if isinstance(options, StrategyOptions) and options.strategy else None
        document: JsonObject = {
            **{name: getattr(instance, name) for name in _OF_INSTANCES},
            "max_computations": instance.counts,
            "in_place": instance.graph.runs_in_place,
            "memories": None,
            "alignment": self.alignment,
            "strategy": strategy,
            "start": start,
            "options": {name: value for name, value in vars(options).items() if name != "strategy"},
        }
        if isinstance(self.problem, PlanProblem):
            assert self.formulation is not None
            document["memories"] = {
                "formulation": self.formulation.name,
                "staged": self.formulation.staged,
                "platform": platform_document(self.problem.platform),
                "goal": goal_document(self.problem.goal),
            }
            document["start"] = None if start is None else [[each.node, each.memory, each.source] for each in start]
        text = json.dumps(document)
        return f'{{"graph": {graph_text(replace(instance.graph, attributes={}))}, {text[1:]}'

    @staticmethod
    def of_document(document: JsonObject) -> Request:
        """Read the request that `to_json` has written.

        Raises:
            InputError: a value makes no sense.
        """
        graph = parse_graph(document["graph"]).run_in_place(document["in_place"])
        most, start, memories = document["max_computations"], document["start"], document["memories"]
        counts = (most,) * len(graph.nodes) if isinstance(most, int) else tuple(most)
        instance = Instance(graph, max_computations=counts, **{name: document[name] for name in _OF_INSTANCES})
        alignment = document["alignment"]
        if memories is not None:
            problem = PlanProblem(instance, platform_of(graph, memories["platform"]), goal_in(memories["goal"]))
            form = _PLANNED[memories["formulation"]](memories["staged"])
            plan = None if start is None else tuple(Action(*each) for each in start)
            return Request(problem, SearchOptions(**document["options"]), form, plan, alignment)
        how: SearchOptions | StrategyOptions
        if document["strategy"] is not None:
            how = StrategyOptions(**document["options"], strategy=find_strategy(document["strategy"]))
        else:
            how = Options(**document["options"])
        return Request(instance, how, start=None if start is None else tuple(start), alignment=alignment)


_OF_INSTANCES = ("order", "budget", "fixed", "free_order")
_PLANNED: dict[str, Callable[[bool], PlanFormulation]] = {
    PagingFormulation.name: lambda staged: PagingFormulation("staged" if staged else "general"),
    DevicesFormulation.name: DevicesFormulation,
    PoolsFormulation.name: PoolsFormulation,
}


@dataclass(frozen=True)
class AllocationRequest:
    """Buffers to which offsets in a small arena are to be assigned.

    Raises:
        InputError: a file that makes no sense, or nonsense as a limit.
    """

    buffers: str
    """CSV as minimalloc reads it."""
    alignment: int = 1
    time_limit: float | None = None
    """Seconds; None: as long as it seems useful."""
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        Effort(self.time_limit, self.threads, self.seed)

    def to_json(self) -> str:
        """Return the request as a worker reads it."""
        return json.dumps(vars(self))


def request_from_json(text: str) -> Request | AllocationRequest:
    """Read the request that `to_json` has written.

    Raises:
        InputError: a value makes no sense.
    """
    document = json.loads(text)
    return AllocationRequest(**document) if "buffers" in document else Request.of_document(document)


Prepare = Callable[..., Request]
"""Function that makes the request: of the graph and, by name, `budget`, `order` and `count_fixed`."""


def prepared(
    given: Given,
    strategy: str | None = None,
    memories: Memories | None = None,
    alignment: int | None = None,
    spelled: Callable[[str], str] = lambda name: name.replace("_", " "),
) -> Prepare:
    """Check arguments before any graph is read; the result makes the request for one.

    Args:
        given: all others.
        strategy: the name of a rule, in place of a search.
        memories: what makes the problem, if there are several memories.
        spelled: turns the name of an argument into its name in messages.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    if memories is not None:
        return _of_plans(given, memories, alignment)
    return _of_model(given, alignment) if strategy is None else _of_strategy(strategy, given, alignment, spelled)


def model_of(given: Given) -> tuple[Options, Callable[[ComputationGraph], Counts]]:
    """Return the options for one memory, and a function from a graph to C_v, the number of computations allowed.

    Raises:
        InputError: nonsense in an argument.
    """
    if given.get("formulation") in {rule.name for rule in strategies()}:
        raise InputError(f"{given['formulation']} is a strategy: --strategy {given['formulation']}")
    most = given.get("max_computations")
    others = {name: value for name, value in given.items() if name not in ("max_computations", "warm_start")}
    options = Options.of({"if_none": default_if_none(most, given.get("iterations")), **others})
    most = options.default_computations(parse_count(most) if isinstance(most, str) else most)
    return options, lambda graph: read_counts(most, graph) if isinstance(most, PathLike) else most


def instance_of(
    given: Given, graph: ComputationGraph, **problem: Any
) -> tuple[Instance, Formulation, Sequence[int] | None]:
    """Return the instance that a model solves, its formulation, and a schedule to start from, if there is one.

    Args:
        given: see `prepared`.
        problem: `budget`, `order` and `count_fixed`.

    Raises:
        InputError: nonsense in an argument.
    """
    request = _of_model(given, None)(graph, **problem)
    assert isinstance(request.problem, Instance) and isinstance(request.options, Options)
    return request.problem, request.options.form, request.start


def _of_model(given: Given, alignment: int | None) -> Prepare:
    options, counted = model_of(given)

    def prepare(graph: ComputationGraph, **problem: Any) -> Request:
        instance = Instance.build(graph, max_computations=counted(graph), **problem)
        start = given.get("warm_start")
        if isinstance(start, str | PathLike):
            start = read_schedule(Path(start), graph).sequence
        elif start is not None:
            start = graph.positions_of(start, "warm start")
        return Request(instance, options, start=start, alignment=alignment)

    return prepare


def _of_strategy(name: str, given: Given, alignment: int | None, spelled: Callable[[str], str]) -> Prepare:
    how = StrategyOptions(time_limit=given.get("time_limit"), strategy=find_strategy(name))
    for other in given:
        if other != "time_limit":
            raise InputError(f"{spelled(other)} is for models, {name} is a strategy")

    def prepare(graph: ComputationGraph, **problem: Any) -> Request:
        return Request(Instance.build(graph, max_computations="unlimited", **problem), how, alignment=alignment)

    return prepare


def _of_plans(given: Given, memories: Memories, alignment: int | None) -> Prepare:
    options = plan_options(given)

    def prepare(graph: ComputationGraph, **problem: Any) -> Request:
        planned, formulation = memories(graph, **problem)
        start = given.get("warm_start")
        if isinstance(start, str | PathLike):
            start = read_plan(Path(start), graph)
        if isinstance(start, ClaimedPlan):
            start = start.on(planned.platform)
        return Request(planned, options, formulation, start, alignment)

    return prepare


def plan_options(given: Given) -> SearchOptions:
    """Return the options for plans among the arguments.

    Raises:
        InputError: nonsense in one of them.
    """
    known = {part.name for part in fields(SearchOptions)}
    return SearchOptions.of({name: value for name, value in given.items() if name in known})
