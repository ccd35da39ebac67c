"""Questions: all that is asked about a graph, through any door; every door makes one, and a question makes the request.

::

    command ──┐
    function ─┼──> Question ── refused, known without a graph ──> one sentence
    experiment┤       │ request(graph)
    deployment┘       └──> in place, concatenations ─┬─ tile ──> the graph of parts ─┐
                                                     ├─ least ─> its least budget ───┼──> Request ──> solve.answer
                                                     └───────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from moccasin_mzn.api.frontier.questions import Variant
from moccasin_mzn.api.frontier.variants import variant_of
from moccasin_mzn.api.least import is_least, within_least
from moccasin_mzn.api.modes import asked, refuse_ways
from moccasin_mzn.api.request import Request, StrategyOptions
from moccasin_mzn.api.tiling import (
    AUTO_IS_SEARCHED,
    AUTO_IS_TRIED,
    LAYERS,
    Target,
    Tiles,
    check_order,
    cut_for_all,
    tiled,
    tiled_for_plans,
    tiling_text,
)
from moccasin_mzn.base.clock import never, nothing
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.option import options_of
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.zero_copy import changed_graph
from moccasin_mzn.problem.arena import check_alignment
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.features import Feature
from moccasin_mzn.problem.files.plans import ClaimedPlan, read_plan
from moccasin_mzn.problem.files.schedules import parse_count, read_counts, read_schedule
from moccasin_mzn.problem.instance import FREE, Instance
from moccasin_mzn.problem.options import ProblemOptions
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import STOP, Options, SearchOptions, default_if_none, plan_options
from moccasin_mzn.strategies import find_strategy, strategies

Note = Callable[[str], None]
"""Called with a line for people."""


class Several(Protocol):
    """Several memories, as someone describes them."""

    @property
    def own_budgets(self) -> bool:
        """Whether each has a budget of its own."""

    @property
    def is_least(self) -> bool:
        """Whether the least budget of the first one is sought."""

    def given(self) -> Mapping[str, object]:
        """Return the arguments that describe them, by name."""

    def refuse_others(self, names: Iterable[str]) -> None:
        """Refuse, by an `InputError`, the first of these arguments that is for one memory only."""

    def problem(
        self, graph: ComputationGraph, options: Mapping[str, Any], *, budget: Any, order: Any, count_fixed: bool,
        whole: ComputationGraph | None,
    ) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
        """Return the problem of a graph, and its formulation; fractions are of the peak of `whole`, if given.

        Raises:
            InputError: nonsense in an option, or options that do not go together.
        """


@dataclass(frozen=True)
class Question(ProblemOptions):
    """What is asked about any graph.

    Raises:
        InputError: nonsense in an option, or options that do not go together; no graph is needed to know that.
    """

    how: Mapping[str, Any] = field(default_factory=dict)
    """Options of the search and of the model that are given, by name, as values of Python or as texts."""
    memories: Several | None = None
    """None: one memory."""
    as_feature: frozenset[Feature] = frozenset()
    """Ways of asking that no option stands for, such as a frontier."""
    spelled: Callable[[str], str] = field(default=str, compare=False)
    """How the user writes the name of an option."""

    def __post_init__(self) -> None:
        if self.alignment is not None:
            check_alignment(self.alignment)
            if not self.addresses:
                raise InputError(f"{self.spelled('alignment')} goes with {self.spelled('addresses')}")
        several = {} if self.memories is None else self.memories.given()
        others = {part.name: getattr(self, part.name) for part in fields(ProblemOptions)}
        ways = asked({**others, **self.how, **several}, self.spelled)
        if self.memories is not None and self.memories.is_least:
            ways[Feature.LEAST] = "least"
        refuse_ways({*ways, *self.as_feature}, ways)
        if self.memories is not None:
            of_problem = {name: getattr(self, name) for name in ("max_computations", "warm_start", "strategy")}
            self.memories.refuse_others([*self.how, *(name for name, value in of_problem.items() if value is not None)])
        if self.tiles is not None:
            check_order(self.order)
            if self.tiles.rows is None and (self._are_given or Feature.FRONTIER in self.as_feature):
                raise InputError(AUTO_IS_SEARCHED)
            if self.tiles.rows is None and self.how.get("iterations") is not None:
                raise InputError(f"{self.spelled('iterations')}: {AUTO_IS_TRIED}")
        self.limit  # noqa: B018 (an option is refused here, if at all)
        if isinstance(self.budget, str) and not is_least(self.budget):
            Budget.parse(self.budget)

    @classmethod
    def of(cls, options: Mapping[str, Any], **more: Any) -> Question:
        """Make a question of options by name, as a command or an experiment has them; None: not given.

        Raises:
            InputError: see the class.
        """
        own, given = options_of(ProblemOptions), {name: value for name, value in options.items() if value is not None}
        how = {name: value for name, value in given.items() if name not in own}
        return cls(**{name: value for name, value in given.items() if name in own}, how=how, **more)

    # --- What is known without a graph -------------------------------------------------------------------------------

    @property
    def is_least(self) -> bool:
        """Whether the least budget is sought."""
        return is_least(self.budget) or (self.memories is not None and self.memories.is_least)

    @cached_property
    def tiles(self) -> Tiles | None:
        """The parts into which outputs are cut; None: they are whole."""
        return None if self.tile is None else Tiles.of(self.tile)

    @property
    def _largest(self) -> str | None:
        """The budget from which the least one is sought, or that is swept; None: each memory has its own. Where one is
        given in addition, the memories refuse it."""
        return self.budget if self.memories is not None and self.memories.own_budgets else "100%"

    @property
    def offsets(self) -> int | None:
        """The alignment of offsets; None: there are none."""
        return (self.alignment or 1) if self.addresses else None

    @property
    def most(self) -> Any:
        """The limit on computations as given; parts in any order may be computed often unless there is one."""
        often = self.max_computations is None and self.tile is not None and not self._keeps_order
        return "auto" if often else self.max_computations

    @cached_property
    def options(self) -> SearchOptions | StrategyOptions:
        """Options of the search, or of the strategy."""
        if self.memories is not None:
            return plan_options(self.how)
        if self.strategy is None:
            named = self.how.get("formulation")
            if named in {rule.name for rule in strategies()}:
                raise InputError(f"{named} is a strategy: --strategy {named}")
            swept = Feature.FRONTIER in self.as_feature  # what helps at a budget is the next one
            if_none = STOP if swept else default_if_none(self.most, self.how.get("iterations"))
            return Options.of({"if_none": if_none, **self.how})
        rule = find_strategy(self.strategy)
        of_models = {**self.how, "max_computations": self.max_computations, "warm_start": self.warm_start}
        for name, value in of_models.items():
            if name not in ("time_limit", "iterations") and value is not None:
                raise InputError(f"{self.spelled(name)} is for models, {rule.name} is a strategy")
        limits = {name: self.how.get(name) for name in ("time_limit", "iterations")}
        return StrategyOptions(**limits, strategy=rule)

    @cached_property
    def limit(self) -> Any:
        """The limit on computations: a number, one for each node, "unlimited", or the path of a file."""
        if isinstance(self.options, StrategyOptions):
            return "unlimited"
        most = parse_count(self.most) if isinstance(self.most, str) else self.most
        return self.options.default_computations(most) if isinstance(self.options, Options) else most

    # --- About a graph ----------------------------------------------------------------------------------------

    def whole(self, graph: ComputationGraph, note: Note = nothing) -> ComputationGraph:
        """Return the graph that is asked about, before it is cut into parts: in place, without concatenations.

        Raises:
            InputError: it cannot be had of the graph.
        """
        return changed_graph(graph, self.in_place, (self.alignment or 1) if self.zero_copy_concat else None, note)

    def request(
        self, graph: ComputationGraph, note: Note = nothing, stop: Callable[[], bool] = never, target: Target = LAYERS
    ) -> Request:
        """Return the request about a graph.

        Args:
            note: called with lines on what was chosen or taken out.
            stop: ends the choice of parts, or the search for the least budget.
            target: how parts are computed.

        Raises:
            InputError: the budget leaves nothing for outputs, or an option makes no sense for the graph.
        """
        graph = self.whole(graph, note)
        if self.tiles is not None and self._are_given:
            return self._of_given_parts(graph, note, stop)
        if self.tiles is not None and self.memories is not None:
            return tiled_for_plans(graph, self._about_parts(graph), self.is_least, note, stop, target)
        if self.tiles is not None:
            return tiled(graph, self.budget, self.count_fixed, self._of_parts, self.tiles, note, stop, target)
        if self.is_least:
            return within_least(self.within(graph, self._largest), note, stop)
        return self.within(graph, self.budget)

    def within(self, graph: ComputationGraph, budget: Any, whole: ComputationGraph | None = None) -> Request:
        """Return the request about a graph as it is, within a budget.

        Args:
            whole: the graph before it was cut, to which fractions of several memories refer; None: it was not.

        Raises:
            InputError: see `request`.
        """
        problem = {"budget": budget, "order": self.order, "count_fixed": self.count_fixed}
        if self.memories is not None:
            how = {**self.how, **({} if self.most is None else {"max_computations": self.most})}
            planned, formulation = self.memories.problem(graph, how, **problem, whole=whole)
            assert isinstance(self.options, SearchOptions)
            return Request(planned, self.options, formulation, self._plan_to_start(graph, planned), self.offsets)
        instance = Instance.build(graph, max_computations=self.counts(graph), **problem)
        return Request(instance, self.options, start=self._schedule_to_start(graph), alignment=self.offsets)

    def modelled(self, graph: ComputationGraph) -> tuple[Instance, Formulation, Sequence[int] | None]:
        """Return the instance that a model solves, its formulation, and a schedule to start from, if there is one.

        Raises:
            InputError: see `request`.
        """
        request = self.within(self.whole(graph), self.budget)
        assert isinstance(request.problem, Instance) and isinstance(request.options, Options)
        return request.problem, request.options.form, request.start

    def sweep(
        self, graph: ComputationGraph, options: SearchOptions | StrategyOptions | None = None, note: Note = nothing
    ) -> Variant:
        """Return what a sweep over budgets asks about a graph; with several memories, budgets of the first one.

        Args:
            options: in place of its own.
            note: see `request`.

        Raises:
            InputError: see `request`.
        """
        graph, question = self.whole(graph, note), replace(self, tile=None, max_computations=self.most)
        whole = None if self.tiles is None else graph
        if self.tiles is not None:
            graph = cut_for_all(graph, self.tiles)
            question = replace(question, order=self.order if self._keeps_order else FREE)
        request = question.within(graph, self._largest, whole)
        return variant_of(request, options)

    def counts(self, graph: ComputationGraph) -> Any:
        """Return C_v, the number of computations allowed, as `Instance.build` takes it.

        Raises:
            InputError: nonsense in a file.
        """
        return read_counts(self.limit, graph) if isinstance(self.limit, PathLike) else self.limit

    @property
    def _keeps_order(self) -> bool:
        """Whether parts keep the order that is given, as strategies and models of one's own take one; others are in
        any."""
        return self.strategy is not None or "model" in self.how

    @property
    def _are_given(self) -> bool:
        """Whether parts are those that are given, not chosen by trials of searches."""
        return self._keeps_order or (
            self.memories is not None and self.tiles is not None and self.tiles.rows is not None
        )

    def _of_given_parts(self, graph: ComputationGraph, note: Note, stop: Callable[[], bool]) -> Request:
        """Return the request about parts that are given; a fraction is of whole layers."""
        assert self.tiles is not None
        parts = cut_for_all(graph, self.tiles)
        note(tiling_text(graph, parts))
        request = self._about_parts(graph)(parts)
        return within_least(request, note, stop) if self.is_least else request

    def _about_parts(self, graph: ComputationGraph) -> Callable[[ComputationGraph], Request]:
        """Return what makes a request about parts of a graph; fractions are of whole layers, and the largest budget is
        where the least one is sought."""
        order = self.order if self._keeps_order else FREE
        question = replace(self, tile=None, max_computations=self.most, order=order)
        budget: Any = self._largest if self.is_least else self.budget
        if not self.is_least and not (self.memories is not None and self.memories.own_budgets):
            layers = Instance.build(graph, budget, count_fixed=self.count_fixed)
            budget = layers.budget + layers.fixed
        return lambda parts: question.within(parts, budget, graph)

    def _of_parts(self, parts: ComputationGraph, budget: int) -> Request:
        return replace(self, order=FREE, tile=None, max_computations=self.most).within(parts, budget)

    def _schedule_to_start(self, graph: ComputationGraph) -> Sequence[int] | None:
        if isinstance(self.warm_start, str | PathLike):
            return read_schedule(Path(self.warm_start), graph).sequence
        return None if self.warm_start is None else graph.positions_of(self.warm_start, "warm start")

    def _plan_to_start(self, graph: ComputationGraph, problem: PlanProblem) -> Any:
        start = self.warm_start
        if isinstance(start, str | PathLike):
            start = read_plan(Path(start), graph)
        return start.on(problem.platform) if isinstance(start, ClaimedPlan) else start
