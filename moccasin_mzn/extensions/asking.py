"""Whatever is asked of a graph as one object: a problem, how to look for its answer, and whether with addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from moccasin_mzn.errors import InputError, explained
from moccasin_mzn.extensions.addresses.arrange import solve_with_addresses
from moccasin_mzn.extensions.solve import solve_on_platform
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import refuse_in_place, refuse_workspaces
from moccasin_mzn.pages import Page
from moccasin_mzn.problem.files.counts import parse_count, read_counts
from moccasin_mzn.problem.files.plans import read_plan
from moccasin_mzn.problem.files.schedules import read_schedule
from moccasin_mzn.problem.instance import FREE, Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.validate import repeats
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.options import STOP, Effort, Options, SearchOptions, default_if_none
from moccasin_mzn.search.plan_search import ignore
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.solve import solve_instance
from moccasin_mzn.strategies import find_strategy, strategies
from moccasin_mzn.strategies.strategy import Strategy

Given = Mapping[str, Any]
"""Arguments of `moccasin_mzn.solve`, those that are there, as code has them or as texts."""
Memories = Callable[..., tuple[PlanProblem, PlanFormulation]]
"""What several memories ask of a graph; takes that, and by name `budget`, `order` and `count_fixed`."""


@dataclass(frozen=True)
class StrategyOptions(Effort):
    """A strategy, which has few options.

    Raises:
        InputError: nonsense as a time limit.
    """

    strategy: Strategy | None = None


@dataclass(frozen=True)
class Question:
    """What one call of `solve` is to answer.

    Raises:
        InputError: an alignment for a graph with workspaces, or that runs in place.
    """

    problem: Instance | PlanProblem
    how: SearchOptions | StrategyOptions
    formulation: PlanFormulation | None = None
    """Of plans."""
    start: Any = None
    """A schedule or a plan within the budget to start from."""
    alignment: int | None = None
    """If given, outputs get offsets that are multiples of it, and the budget is for the arena."""

    def __post_init__(self) -> None:
        if self.alignment is not None:
            refuse_workspaces(self.problem.instance.graph, "arenas")
            refuse_in_place(self.problem.instance.graph, "arenas")

    def answer(self, listener: Listener | None = None, begin: float | None = None) -> Result:
        """Search, and return the best that is found.

        Args:
            listener: called with every new incumbent and bound, in the caller's thread.
            begin: the time limit counts from here, by `time.monotonic()`; default: from now.

        Raises:
            InputError: MiniZinc or a solver is missing or failed, or does not go with the problem.
        """
        begin = time.monotonic() if begin is None else begin
        if isinstance(self.problem, PlanProblem):
            assert self.formulation is not None and isinstance(self.how, SearchOptions)
            return solve_on_platform(
                self.problem, self.formulation, self.how, listener or ignore, begin=begin, warm_start=self.start,
                alignment=self.alignment,
            )  # fmt: skip
        if self.alignment is None:
            return _noted(self._schedule(self.problem, listener, begin))

        def part(other: Instance, seconds: float | None) -> Result:
            how = replace(self.how, time_limit=seconds)
            if isinstance(how, Options):
                how = replace(how, if_none=STOP)
            start = self.start if other is self.problem else None
            return replace(self, how=how, start=start)._schedule(other, listener, None)

        return _noted(solve_with_addresses(
            self.problem, part, self.alignment, time_limit=self.how.time_limit, threads=self.how.threads,
            seed=self.how.seed or 0,
        ))  # fmt: skip

    def _schedule(self, instance: Instance, listener: Listener | None, begin: float | None) -> Result:
        if isinstance(self.how, StrategyOptions):
            assert self.how.strategy is not None
            return apply(instance, self.how.strategy, self.how.time_limit, listener, begin)
        assert isinstance(self.how, Options)
        with explained(Page.OWN_MODEL if self.how.form.model else None):
            return solve_instance(instance, self.how, listener, begin, self.start)


def _noted(result: Result) -> Result:
    """With a note where a schedule repeats what the graph says is computed once: strategies and Checkmate's models know
    no counts."""
    notes = repeats(result.instance.graph, result.sequence or ())
    return replace(result, notes=(*result.notes, *notes)) if notes else result


Prepare = Callable[..., Question]
"""Takes the graph, and by name `budget`, `order` and `count_fixed`."""


def prepared(
    given: Given,
    strategy: str | None = None,
    memories: Memories | None = None,
    alignment: int | None = None,
    spelled: Callable[[str], str] = lambda name: name.replace("_", " "),
) -> Prepare:
    """Check arguments before any graph is read; the result makes the question of one.

    Args:
        given: all others.
        strategy: the name of a rule, in place of a search.
        memories: if there are several, what they ask.
        spelled: turns the name of an argument into what people know it by.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    if memories is not None:
        return _of_plans(given, memories, alignment)
    return _of_model(given, alignment) if strategy is None else _of_strategy(strategy, given, alignment, spelled)


def model_of(given: Given) -> tuple[Options, Callable[[ComputationGraph], Any]]:
    """How to look for a schedule, and what says how often the nodes of a graph may be computed.

    Raises:
        InputError: nonsense in an argument.
    """
    if given.get("formulation") in {rule.name for rule in strategies()}:
        raise InputError(f"{given['formulation']} is a strategy: --strategy {given['formulation']}")
    most = given.get("max_computations")
    others = {name: value for name, value in given.items() if name not in ("max_computations", "warm_start")}
    options = Options.of({"if_none": default_if_none(most), **others})
    most = options.default_computations(parse_count(most) if isinstance(most, str) else most)
    return options, lambda graph: read_counts(most, graph) if isinstance(most, PathLike) else most


def instance_of(given: Given, graph: ComputationGraph, **problem: Any) -> tuple[Instance, Formulation, Any]:
    """The instance that a model is asked to solve, its formulation, and a schedule to start from, if there is one.

    Args:
        given: see `prepared`.
        problem: `budget`, `order` and `count_fixed`.

    Raises:
        InputError: nonsense in an argument.
    """
    question = _of_model(given, None)(graph, **problem)
    assert isinstance(question.problem, Instance) and isinstance(question.how, Options)
    return question.problem, question.how.form, question.start


def _of_model(given: Given, alignment: int | None) -> Prepare:
    options, counted = model_of(given)

    def prepare(graph: ComputationGraph, **problem: Any) -> Question:
        instance = Instance.build(graph, max_computations=counted(graph), **problem)
        start = given.get("warm_start")
        if isinstance(start, str | PathLike):
            start = read_schedule(Path(start), graph).sequence
        return Question(instance, options, start=start, alignment=alignment)

    return prepare


def _of_strategy(name: str, given: Given, alignment: int | None, spelled: Callable[[str], str]) -> Prepare:
    how = StrategyOptions(time_limit=given.get("time_limit"), strategy=find_strategy(name))
    for other in given:
        if other != "time_limit":
            raise InputError(f"{spelled(other)} is for models, {name} is a strategy")

    def prepare(graph: ComputationGraph, **problem: Any) -> Question:
        if problem["order"] == FREE:
            raise InputError(f"{spelled('order')} free is for models, {name} is a strategy")
        return Question(Instance.build(graph, max_computations="unlimited", **problem), how, alignment=alignment)

    return prepare


def _of_plans(given: Given, memories: Memories, alignment: int | None) -> Prepare:
    options = plan_options(given)

    def prepare(graph: ComputationGraph, **problem: Any) -> Question:
        asked, formulation = memories(graph, **problem)
        start = given.get("warm_start")
        if isinstance(start, str | PathLike):
            start = read_plan(Path(start), graph).plan
        return Question(asked, options, formulation, start, alignment)

    return prepare


def plan_options(given: Given) -> SearchOptions:
    """How to look for a plan, of all arguments that are there.

    Raises:
        InputError: nonsense in one of them.
    """
    known = {part.name for part in fields(SearchOptions)}
    return SearchOptions.of({name: value for name, value in given.items() if name in known})
