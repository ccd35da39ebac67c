"""What to hold and what to compute again: the cheapest choice, by minimum cuts.

Some outputs are `needed`: each is held, or dropped and computed again. Some are `tools`: not needed, but inputs of what
is computed again, and then they are held or computed again themselves. All others are at hand. ::

    needed u, computed again    saves[u] of memory, for duration[u], and its tools are wanted
    tool i that is wanted       held: takes holds[i] of memory; or computed again: for duration[i], and wants its tools

With a price for memory that is a choice of projects that need each other's tools, a minimum cut: time and memory are
about linear in reads. The price is a fraction p / q and all capacities are integers: no rounding enters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

MOST_PRICES = 24
"""Tried at most; mostly six to ten are enough."""
_LARGEST = 2**60
_FINEST = 2**40
"""Denominator of prices, at most."""


@dataclass(frozen=True)
class Cut:
    """What is best at one price of memory."""

    cost: int
    """Duration of what is computed again."""
    over: int
    """Memory that is to be saved still; negative: more is saved than has to be."""
    again: np.ndarray
    """bool[n]: is it computed again?"""
    value: int
    """No choice that saves enough costs less; rounded up."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Arrays are by node; amounts are integers in any unit."""

    duration: np.ndarray
    saves: np.ndarray
    holds: np.ndarray
    reads: tuple[np.ndarray, np.ndarray]
    """Reader and input of each read that wants its input if the reader is computed again, should that be a tool."""
    needed: np.ndarray
    tools: np.ndarray
    possible: np.ndarray
    """May it be computed again?"""
    excess: int
    """What is to be saved."""

    def __post_init__(self) -> None:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        n, wants = len(self.duration), SimpleMaxFlow()
        reader, read = self.reads
        projects = np.flatnonzero(self.possible & (self.needed | self.tools) & (self.saves > 0))
        project = np.zeros(n, bool)
        project[projects] = True
        tools = np.flatnonzero(self.tools)
        wanted = np.flatnonzero(self.tools[read] & project[reader])
        itself = projects[~self.needed[projects]]
        for starts, ends in ((reader[wanted], n + read[wanted].astype(np.int64)), (itself, n + itself)):
            wants.add_arcs_with_capacity(starts, ends, np.full(len(starts), 2**62))
        wants.add_arc_with_capacity(2 * n, 2 * n + 1, 0)  # source and sink are there, even if there are no tools
        paying = wants.add_arcs_with_capacity(np.full(len(projects), 2 * n), projects, np.zeros(len(projects), int))
        paid = wants.add_arcs_with_capacity(n + tools, np.full(len(tools), 2 * n + 1), np.zeros(len(tools), int))
        object.__setattr__(self, "_network", (wants, projects, paying, tools, paid))

    def at(self, price: Fraction) -> Cut:
        """The best choice at a price of memory, which is rounded down to what fits the arithmetic."""
        flow, projects, paying, tools, paid = self._network  # type: ignore[attr-defined]
        n = len(self.duration)
        amounts = int(self.saves[projects].sum()) + int(self.holds[tools].sum())
        q = max(1, min(_FINEST, _LARGEST // (int(self.duration.sum()) + int(price * amounts) + 1)))
        p = min(int(price * q), _LARGEST // (amounts + 1))
        pays = (p * self.saves[projects] - q * self.duration[projects]).clip(min=0)
        flow.set_arcs_capacity(paying, pays)
        flow.set_arcs_capacity(paid, p * self.holds[tools])
        if flow.solve(2 * n, 2 * n + 1) != flow.OPTIMAL:
            raise RuntimeError("a minimum cut was not found")
        side = np.zeros(2 * n + 2, bool)
        side[flow.get_source_side_min_cut()] = True
        value = p * self.excess - int(pays.sum()) + int(flow.optimal_flow())
        again = np.zeros(n, bool)
        again[projects] = side[projects] & (pays > 0)
        held = side[n : 2 * n] & ~(again & ~self.needed)
        saved = int(self.saves[again & self.needed].sum()) - int(self.holds[held].sum())
        return Cut(int(self.duration[again].sum()), self.excess - saved, again, -(-value // q))

    def best(self, stop: Callable[[], bool] = lambda: False, near: float = 0.0) -> tuple[int, Cut | None]:
        """The best bound over all prices, and the cheapest cut met that saves enough; None: none does.

        Args:
            near: a cut that saves more than it has to by no more than this fraction is good enough.
        """
        over, fits, bound = Cut(0, self.excess, np.zeros(len(self.duration), bool), 0), None, 0
        price = self._first_price()
        for _ in range(MOST_PRICES):
            if stop() or (fits is not None and -fits.over <= near * self.excess):
                break
            cut = self.at(price)
            bound = max(bound, cut.value)
            if cut.over > 0:
                closer, over = cut.over < over.over, cut
            else:
                closer = fits is None or cut.cost < fits.cost
                fits = cut if closer else fits
            if fits is None:
                price *= 2
                continue
            if not closer or fits.cost <= over.cost or over.over <= fits.over:
                break
            price = Fraction(fits.cost - over.cost, over.over - fits.over)
            if fits.cost + price * fits.over <= bound:
                break
        return bound, fits

    def _first_price(self) -> Fraction:
        """Where the cheapest of what is needed, dropped, would save enough if tools cost nothing."""
        could = np.flatnonzero(self.needed & self.possible & (self.saves > 0))
        if len(could) == 0:
            return Fraction(1)
        by_price = could[np.argsort(self.duration[could] / self.saves[could], kind="stable")]
        enough = int(np.searchsorted(np.cumsum(self.saves[by_price]), self.excess))
        dearest = by_price[min(enough, len(by_price) - 1)]
        return Fraction(max(1, int(self.duration[dearest])), int(self.saves[dearest]))
