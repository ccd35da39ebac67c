"""Requests: a problem and how to solve it as one object, the same for commands, functions, experiments and racers.

::

    Question ── about a graph ──> Request ── solve.answer ──> Result
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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

from moccasin_mzn.api.modes import refuse_ways
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.stop import check_iterations
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.formats.node_link import parse as parse_graph
from moccasin_mzn.machine.problems import PLAN_FORMULATIONS
from moccasin_mzn.problem.features import Feature, Features
from moccasin_mzn.problem.files.plans import goal_in, platform_of
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.placing import check_places
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action
from moccasin_mzn.problem.problem import Judged, Problem, Step
from moccasin_mzn.search.options import Effort, Options, SearchOptions
from moccasin_mzn.search.result import Result
from moccasin_mzn.strategies import find_strategy
from moccasin_mzn.strategies.strategy import Strategy


@dataclass(frozen=True)
class StrategyOptions(Effort):
    """Options of a strategy.

    Raises:
        InputError: the time limit makes no sense.
    """

    strategy: Strategy | None = None
    iterations: int | None = None
    """The most schedules that it makes; None: as many as it has, within the time limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_iterations(self.iterations)


def ways_in(options: Effort) -> Features:
    """Return the ways of asking that options stand for."""
    ways = {
        Feature.STRATEGY: isinstance(options, StrategyOptions),
        Feature.ITERATIONS: getattr(options, "iterations", None) is not None,
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
    known: Result | None = None
    """A result whose answer is within the budget, for where the search finds none; the process that made it has it."""

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
        if self.formulation is not None:
            described = self.problem.settings()
            document["memories"] = {
                "formulation": self.formulation.name,
                "staged": self.formulation.staged,
                "platform": described["platform"],
                "goal": described["goal"],
            }
            plan = None if start is None else self.problem.actions(start)
            document["start"] = None if plan is None else [[each.node, each.memory, each.source] for each in plan]
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
_PLANNED = {kind.name: kind for kind in PLAN_FORMULATIONS}


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
