"""The interface of problems to searches, records and reports: graph, order, counts C_v, memories and goal.

::

                         Problem[Step, Account]      graph, order, C_v, platform (memories >= 1, links), objective
                          /                  \\
    Instance: Problem[int, Simulation]      PlanProblem: Problem[Action, PlanSimulation]
    one memory: a schedule is a             several memories: a schedule is a
    tuple of positions of nodes             tuple of computations and copies

Both kinds of schedule are plans of their platform (`as_plan`). They are two kinds because the searches of one memory,
in compiled code, work on positions in arrays, and because each has a judge of its own which shares nothing with the
other.
All between them and the user knows only what is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from typing_extensions import TypeVar

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.features import Features
from moccasin_mzn.problem.judges.schedules import Violation
from moccasin_mzn.problem.platform import Plan, Platform

if TYPE_CHECKING:
    from moccasin_mzn.problem.arena import Arena
    from moccasin_mzn.problem.instance import Instance


class Account(Protocol):
    """The judge's account of a schedule."""

    @property
    def duration(self) -> int:
        """Total duration of all steps, in the graph's duration unit."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Why it is no schedule of the problem."""

    @property
    def feasible(self) -> bool:
        """True if there is no violation."""


Step = TypeVar("Step", default=Any)
"""One step of a schedule: the position of the node that is computed, or an `Action` on a platform."""
Judged = TypeVar("Judged", bound=Account, default=Any)
"""The judge's account of a schedule. Without type arguments, a problem, a board or a result is of either kind."""
Placed = TypeVar("Placed", contravariant=True, default=Any)
"""The arenas of a schedule: an `Arena`, or `PlanArenas` where there are several memories."""


class Problem(Protocol[Step, Judged, Placed]):
    """A problem. Its answers are schedules: tuples of steps."""

    @property
    def graph(self) -> ComputationGraph:
        """The computation graph."""

    @property
    def features(self) -> Features:
        """What the problem has in addition to graph, order and budget."""

    @property
    def instance(self) -> Instance:
        """Graph, input order and C_v, as the searches of one memory see them."""

    @property
    def platform(self) -> Platform:
        """The memories, at least one, and the links between them."""

    @property
    def budget(self) -> int | None:
        """The budget of the memory, in the graph's size unit; None: each of several memories has its own."""

    @property
    def budgets(self) -> dict[str, int | None]:
        """The budget of each memory, by its name; None: as much as there may be."""

    @property
    def objective(self) -> str:
        """The total to minimize: "duration", "energy" or "traffic"."""

    @property
    def better(self) -> str:
        """The words for a schedule of less value, such as "is shorter"."""

    @property
    def within(self) -> str:
        """The words for a schedule within the limits, such as "fits the budget 8"."""

    @property
    def counted(self) -> tuple[str, str]:
        """The words for what C_v limits, to be read around its plural: "computation", "per node"."""

    # Schedules

    def judge(self, answer: Sequence[Step]) -> Judged:
        """The judge's account, with all limits of the problem."""

    def value(self, simulation: Judged) -> int:
        """The total of a schedule that is minimized."""

    def least_value(self) -> int:
        """A lower bound on the value that needs no search: every node computed once, where that costs least."""

    @property
    def baseline_duration(self) -> int:
        """The duration that increases are relative to, of every node computed once in the input order; with memories of
        one device, each output is where accesses take least."""

    def together(self, answer: Sequence[Step]) -> tuple[Step, ...]:
        """The same with further outputs directly after the first ones; see `ComputationGraph.together`."""

    def useful(self, answer: Sequence[Step]) -> tuple[Step, ...]:
        """A schedule without the steps at its end that are of no use."""

    def pruned(self, answer: Sequence[Step]) -> tuple[Step, ...]:
        """A schedule that the judge accepts, without the steps that nothing needs."""

    def recomputations(self, simulation: Judged) -> int:
        """The number of computations beyond one per node."""

    def as_plan(self, answer: Sequence[Step]) -> Plan:
        """A schedule as computations and copies on the platform."""

    def positions(self, answer: Sequence[Step]) -> tuple[int, ...] | None:
        """A schedule of one memory as positions in `graph.nodes`; None with several memories."""

    def actions(self, answer: Sequence[Step]) -> Plan | None:
        """A plan of several memories; None with one memory, whose schedules copy nothing."""

    def peaks(self, simulation: Judged) -> dict[str, int]:
        """The peak in each memory, by its name."""

    # Orders

    def along(self, order: tuple[int, ...]) -> Self:
        """The same problem with this input order, to which first computations keep."""

    def order_of(self, answer: Sequence[Step]) -> tuple[int, ...]:
        """The order of first computations in a schedule."""

    def in_one_memory(self, sequence: Sequence[int]) -> Iterator[tuple[Step, ...]]:
        """The schedules that compute a sequence of positions in one of the memories and copy nothing."""

    # Arenas

    def fits(self, arenas: Placed) -> bool:
        """Whether the arenas of a schedule are within the budgets."""

    def arenas_with_limits(self, arenas: Placed) -> list[tuple[Arena, int, str]]:
        """Each arena, its limit (its own size without a budget), and ", in NAME" where there are several memories."""

    def arenas_document(self, arenas: Placed) -> JsonObject:
        """Sizes of arenas as JSON documents have them."""

    def placed(self, arenas: Placed, simulation: Judged) -> list[JsonObject]:
        """For each retention interval "offset", where its copy lies, and "workspace_offset", where the workspace of its
        computation does, if it takes one."""

    def offsets(self, arenas: Placed, simulation: Judged) -> Sequence[int]:
        """The offset of each retention interval in the arena of its memory."""

    # Documents

    def figures(self, simulation: Judged | None) -> JsonObject | None:
        """Peaks and totals of a schedule; None where there is nothing to report without one."""

    def summary(self, simulation: Judged | None) -> JsonObject:
        """The figures and what else is counted; None for each without a schedule."""

    def named(self, answer: Sequence[Step] | None) -> JsonObject:
        """A schedule under its key: nodes by id, memories by name."""

    def intervals(self, simulation: Judged) -> list[JsonObject]:
        """The retention intervals, one for each step."""

    def settings(self) -> JsonObject:
        """The budget, or platform and goal."""

    def answer_in(self, document: JsonObject) -> tuple[Step, ...] | None:
        """The schedule of a JSON document, see `named`; None if it has none."""

    def by_position(self) -> Self:
        """The same problem on a graph whose nodes go by their positions, and in whose file the input order stands."""


def answer_document(
    problem: Problem[Step, Judged, Placed],
    answer: Sequence[Step] | None,
    simulation: Judged | None,
    arenas: Placed | None,
) -> JsonObject:
    """Return the part of `solve --json` that depends on the kind of problem.

    That is settings, figures, schedule, retention intervals with their offsets, and arenas.
    """
    found = None
    if simulation is not None:
        found = problem.intervals(simulation)
        if arenas is not None:
            found = [one | more for one, more in zip(found, problem.placed(arenas, simulation), strict=True)]
    placed = {} if arenas is None else problem.arenas_document(arenas)
    return {**problem.settings(), **problem.summary(simulation), **problem.named(answer), "intervals": found, **placed}
