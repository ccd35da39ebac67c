"""MOCCASIN (Bartan et al., ICML 2023): retention intervals, of staged or of free events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.base.option import Option
from moccasin_mzn.formulations import models
from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.formulations.presolve import ModelData, as_given, presolve
from moccasin_mzn.formulations.retention import Intervals, decode
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.run import Member, Solution, Value

PRECEDENCE = Option(
    "served-by|reservoir",
    "How the model states that the inputs of a node are in memory: each read is served by one interval, or by "
    "reservoir constraints, as published.  [default: served-by]",
    choices=("served-by", "reservoir"),
)
INDEX = Option(
    "affine|triangular",
    "How the staged model numbers events: without unused numbers, or as published.  [default: affine]",
    choices=("affine", "triangular"),
)
ALL, NONE = "all", "none"
REDUNDANT = Option(
    "all|none|GROUPS",
    "Groups of redundant constraints: all, none, a list such as cover,order, or all but some: -cover. The groups are "
    "cover, critical and order.  [default: all]",
    choices=(ALL, NONE),
)
BRANCHING = Option(
    "density|from-below|by-solver",
    "For solvers that follow a search order, such as Gecode. density: first decide against recomputations that take "
    "long for the memory they save; from-below: first try short durations; by-solver: no order.  [default: density]",
    choices=("density", "from-below", "by-solver"),
)
PRESOLVE = Option(
    "on|off",
    "on: simplify the graph before the model gets it; off: leave that to the model.  [default: on]",
    choices=("on", "off"),
)
GROUPS = ("cover", "critical", "order")
"""The groups of redundant constraints; the first two are of stages."""


@dataclass(frozen=True, kw_only=True)
class IntervalFormulation(Formulation):
    """A model whose solutions are retention intervals, in the arrays `active`, `start` and `end` of its output."""

    def data(self, problem: Instance) -> ModelData:
        return presolve(problem, self.staged)

    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """Each interval once; in the cover constraints of staged events each copy as often as it is the latest."""
        return tuple(most * max(1, most - 1) if self.staged else most for most in data.max_computations)

    def sequence(self, data: ModelData, values: Solution) -> tuple[int, ...]:
        return decode(data, Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))

    def solution_items(self, data: ModelData, values: Solution) -> dict[str, Value]:
        arrays = {name: tuple(getattr(values, name)) for name in ("active", "start", "end")}
        return {
            **arrays,
            "computed_node": data.computation_nodes,
            "total_duration": values.objective,
            "capacity": data.budget,
            "offset": (),
            "workspace_offset": (),
        }


@dataclass(frozen=True, kw_only=True)
class Moccasin(IntervalFormulation):
    """One of the paper's formulations with one form of its precedence constraint and of its event index.

    Staged, with reservoir and triangular, it is the published one, without redundant constraints.

    Raises:
        InputError: an unknown value of an option; or a triangular index, or redundant constraints of stages, of free
            events.
    """

    precedence: str = "served-by"
    """"served-by": half-reified booleans; "reservoir": as published (2.2)."""
    index: str = "affine"
    """The numbering of staged events. "affine": starts without holes, and redundant constraints; "triangular": as
    published (2.3), and no redundant constraints of stages."""
    branching: str = "density"
    """The search annotation. "density": first without the recomputations that take longest for the memory they spare;
    "from-below": the shorter durations before that; "by-solver": none."""
    redundant: str = ALL
    """Which groups of redundant constraints the model has: "all", "none", or names with commas between them; with "-"
    before them, all but these."""
    presolve: str = "on"
    """"on": presolved data; "off": the graph and the budget as they are."""

    own_options: ClassVar[Mapping[str, Option]] = {
        "precedence": PRECEDENCE, "index": INDEX, "branching": BRANCHING, "redundant": REDUNDANT, "presolve": PRESOLVE,
        **Formulation.own_options,
    }  # fmt: skip

    def __post_init__(self) -> None:
        for what in ("precedence", "index", "branching", "presolve"):
            option, value = self.own_options[what], getattr(self, what)
            if value not in option.choices:
                raise InputError(f"unknown {what} {shown(value)}, {one_of(value, option.choices)}")
        if self.index == "triangular" and not self.staged:
            raise InputError(f"the triangular index numbers staged events, the {self.name} formulation has free ones")
        self.groups()
        if self.precedence == "reservoir":  # it needs no boolean for every pair of copies, as served-by does
            object.__setattr__(self, "growth", replace(self.growth, booleans="C n", constraints="C (n + m)"))

    def groups(self) -> frozenset[str]:
        """The groups of redundant constraints that the model is to have.

        Raises:
            InputError: there is no such group, or not of free events.
        """
        known = GROUPS if self.staged else GROUPS[2:]
        if self.redundant in (ALL, NONE):
            return frozenset(known if self.redundant == ALL else ())
        names = [name.strip() for name in self.redundant.removeprefix("-").split(",")]
        for name in names:
            if name.removeprefix("-") not in known:
                raise InputError(
                    f"redundant {shown(self.redundant)}: {self.name} has {', '.join(known)}, expected some of them, "
                    f"-NAME for all but one, {ALL} or {NONE}"
                )
        chosen = frozenset(name.removeprefix("-") for name in names)
        return frozenset(known) - chosen if self.redundant.startswith("-") else chosen

    @property
    def two_phase(self) -> bool:
        return not self.model or any(path.name == "parameters.mzn" for path in models.included(self.file))

    def elastic(self, data: ModelData) -> bool:
        """True in stages, where the objective, with a unit of memory worth more than all recomputations, is exact in
        floating point, which CP-SAT makes use of."""
        excess = max(data.input_order_memory, default=0) - data.budget
        return self.two_phase and self.staged and self.index == "affine" and excess * data.longest < 2**53

    def parameters(self) -> str:
        """Seek schedules from below, next to the bound of the cover rows: all that is proven is proven in a half to a
        tenth of the time; probing takes more than it finds."""
        return "use_objective_lb_search:true cp_model_probing_level:0" if self.staged and not self.model else ""

    def data(self, problem: Instance) -> ModelData:
        return super().data(problem) if self.presolve == "on" else as_given(problem)

    def choices(self, objective: str) -> dict[str, Value]:
        chosen: dict[str, Value] = {} if objective == "duration" else {"phase": Member(objective.upper())}
        for name in ("precedence", "index", "branching"):
            value = getattr(self, name)
            if value != self.own_options[name].choices[0]:
                chosen[name] = Member(value.upper().replace("-", "_"))
        if self.redundant != ALL:
            chosen["redundant"] = frozenset(Member(name.upper()) for name in self.groups())
        return chosen

    def forms(self) -> Iterator[tuple[str, Formulation]]:
        reservoir = replace(self, precedence="reservoir")
        if self.staged:
            yield f"{self.name}, as published", replace(reservoir, index="triangular")
        yield f"{self.name} reservoir", reservoir
        yield self.name, self
