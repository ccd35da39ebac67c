"""What searches, records and reports ask of a problem, whatever its answers are.

There are two: an `Instance` asks for a schedule of one memory, a `PlanProblem` for a plan for several. Each has a judge
of its own, and kernels of its own look for answers; all between them and the user knows only this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import Violation

if TYPE_CHECKING:
    from moccasin_mzn.problem.instance import Instance


class Account(Protocol):
    """What the judge says of an answer."""

    @property
    def duration(self) -> int:
        """Of all that is done, in the graph's duration unit."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Why it is none."""

    @property
    def feasible(self) -> bool:
        """True if there is no violation."""


class Problem(Protocol):
    """What is asked. Answers are tuples: positions in `graph.nodes`, or actions."""

    noun: ClassVar[str]
    """Of an answer: "schedule" or "plan"; also its key in JSON documents, see `named`."""
    seeks_peak: ClassVar[bool]
    """Without an answer, is it worth telling how near the budget the search came?"""

    @property
    def graph(self) -> ComputationGraph:
        """What is computed."""

    @property
    def instance(self) -> Instance:
        """Graph, input order and C_v."""

    @property
    def objective(self) -> str:
        """What is to be least: "duration", "energy" or "traffic"."""

    @property
    def better(self) -> str:
        """What an answer of less value is, such as "is shorter"."""

    @property
    def within(self) -> str:
        """What an answer does, such as "fits the budget 8"."""

    @property
    def counted(self) -> tuple[str, str]:
        """What C_v limits, to be read around its plural: "computation", "per node"."""

    def judge(self, answer: Sequence[Any]) -> Account:
        """The judge's account, with all limits of the problem."""

    def value(self, simulation: Any) -> int:
        """What is to be least, of an answer."""

    def least_value(self) -> int:
        """No answer has less, which is known at once."""

    def useful(self, answer: Sequence[Any]) -> tuple[Any, ...]:
        """An answer without what is at its end to no use."""

    def pruned(self, answer: Sequence[Any]) -> tuple[Any, ...]:
        """An answer that the judge accepts, without what nothing needs."""

    def recomputations(self, simulation: Any) -> int:
        """Computations of an answer beyond one per node."""

    def fits(self, arenas: Any) -> bool:
        """Are the arenas of an answer within the budgets?"""

    def figures(self, simulation: Any | None) -> dict[str, Any]:
        """Of an answer, as JSON lines tell them; None for each without one, unless it `seeks_peak`."""

    def named(self, answer: Sequence[Any]) -> dict[str, Any]:
        """An answer as JSON documents tell it, under its key: nodes by id, memories by name."""

    def answer_in(self, document: dict[str, Any]) -> tuple[Any, ...] | None:
        """The answer of a JSON document, see `named`; None: there is none in it."""

    def by_position(self) -> Problem:
        """The same problem on a graph whose nodes go by their positions, and in whose file the input order stands."""

    def document(self, answer: Any, simulation: Any, arenas: Any) -> dict[str, Any]:
        """What the object that `solve --json` prints says of this kind of problem alone."""
