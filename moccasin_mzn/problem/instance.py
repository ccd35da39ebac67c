"""A rematerialization problem: a graph, its input order, a budget, and how often each node may be computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from os import PathLike

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.files.schedules import read_order
from moccasin_mzn.problem.judges.schedules import Simulation, simulate
from moccasin_mzn.words import count_text

AUTO_COMPUTATIONS = 8
"""So many computations per node are rarely used up."""
MOST_COMPUTATIONS = 1000
FREE = "free"
"""In place of an order: it is to be chosen."""


@dataclass(frozen=True)
class Instance:
    """What is to be solved (paper, section 2).

    Raises:
        InputError: an order that is not topological; a negative budget; a count of computations below 1, named by node.
    """

    graph: ComputationGraph
    order: tuple[int, ...]
    """Input order: positions in `graph.nodes`."""
    budget: int
    """M, in the graph's size unit; negative if fixed memory alone takes more."""
    max_computations: tuple[int, ...]
    """C_v: how often each node may be computed, by position in `graph.nodes`; 1 or more."""
    fixed: int = 0
    """Fixed memory that the budget as given had to hold as well, in the graph's size unit; `budget` is what it left."""
    free_order: bool = False
    """Is the order to be chosen too? Then `order` is only what the solution is compared with."""

    def __post_init__(self) -> None:
        self.graph.check_order(self.order)
        if self.budget < 0 and not self.fixed:
            raise InputError(f"budget {self.budget} is negative")
        if len(self.max_computations) != len(self.graph.nodes):
            nodes = count_text(len(self.graph.nodes), "node")
            raise InputError(f"max_computations: {count_text(len(self.max_computations), 'value')} for {nodes}")
        for node, count in zip(self.graph.nodes, self.max_computations, strict=True):
            if type(count) is not int or not 1 <= count <= MOST_COMPUTATIONS:
                expected = f"is not an integer from 1 to {MOST_COMPUTATIONS}"
                raise InputError(f"max_computations of node {node}: {shown(count)} {expected}")

    @cached_property
    def baseline(self) -> Simulation:
        """The input order with every node computed once: least duration, but perhaps too much memory."""
        return simulate(self.graph, self.order)

    @property
    def counts(self) -> int | list[int]:
        """C_v, as a single number where that is the same for all."""
        same = len(set(self.max_computations)) == 1
        return self.max_computations[0] if same else list(self.max_computations)

    def with_more_computations(self) -> Instance | None:
        """With `AUTO_COMPUTATIONS` of each node; if each has a count of its own, of those that may be computed again.

        None: no node gets more.
        """
        one_for_all = isinstance(self.counts, int)
        most = tuple(max(c, AUTO_COMPUTATIONS) if c > 1 or one_for_all else c for c in self.max_computations)
        return None if most == self.max_computations else replace(self, max_computations=most)

    @classmethod
    def build(
        cls,
        graph: ComputationGraph,
        budget: Budget | int | float | Fraction | str,
        *,
        order: str | PathLike[str] | Sequence[int] = "input",
        max_computations: int | Sequence[int] | str = 2,
        count_fixed: bool = False,
    ) -> Instance:
        """An instance from what people say.

        Args:
            graph: the computation graph.
            budget: see `Budget.of`; a fraction refers to the peak of the order chosen here.
            order: "input" (the file's, or else a topological one), "topological", a file of ids, or positions; "free":
                it is to be chosen, from the input order on.
            max_computations: C_v, one for all nodes or one for each; "auto": `AUTO_COMPUTATIONS`; "unlimited": the
                number of nodes, more than any staged schedule can use.
            count_fixed: the budget is for the graph's fixed memory too: what that leaves is for outputs. A fraction
                then refers to the peak and the fixed memory together.

        Raises:
            InputError: nonsense in any of them.
        """
        free = isinstance(order, str) and order == FREE
        positions = chosen_order(graph, "input" if free else order)
        named = {"auto": AUTO_COMPUTATIONS, "unlimited": min(len(graph.nodes), MOST_COMPUTATIONS)}
        if isinstance(max_computations, str):
            if max_computations not in named:
                raise InputError(f"max computations {shown(max_computations)}: expected {' or '.join(named)}")
            max_computations = named[max_computations]
        if isinstance(max_computations, int):
            max_computations = (max_computations,) * len(graph.nodes)
        peak = simulate(graph, positions).peak
        fixed = graph.total_fixed_memory if count_fixed else 0
        amount = Budget.of(budget).resolve(peak + fixed) - fixed
        return cls(graph, positions, amount, tuple(max_computations), fixed, free)


def chosen_order(graph: ComputationGraph, order: str | PathLike[str] | Sequence[int]) -> tuple[int, ...]:
    """The order meant by "input", "topological", a file of node ids, or a sequence of positions.

    Raises:
        InputError: the file cannot be read, or is no topological order of the graph.
    """
    if isinstance(order, str) and order == "input":
        return graph.input_order()
    if isinstance(order, str) and order == "topological":
        return graph.topological_order()
    if isinstance(order, str | PathLike):
        return read_order(order, graph)
    if isinstance(order, Sequence) and not isinstance(order, str):
        return tuple(order)
    raise InputError(f"order {shown(order)}: expected input, topological, a file or a sequence of positions")
