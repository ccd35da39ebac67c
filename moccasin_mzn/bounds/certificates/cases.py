"""Which nodes are computed more than once: the least cost, by cases that anyone can check.

Branch and bound over r_u, "u is computed more than once", the case of the least bound first. A case is relaxed, and its
solution asks for further inequalities::

    relaxation  ->  the nodes with r_u > 0  ->  violated inequalities  ->  relaxation ...
                    the nodes with r_u = 1                             ->  none: branch, or, if all r_u are integers,
                                                                           they are the least cost of this case

A case ends with a bound in exact integers and the multipliers that prove it, or with an inequality that it cannot meet.
Whatever is open when the time is up has the bound of the case above it: at any moment the tree proves the least bound
of its leaves.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from moccasin_mzn.bounds.flow_covers.cuts import FlowCut, Moments
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.problem.judges.schedules import simulate

# --- Flow cover inequalities for one graph and one budget, as they are where some nodes are decided -----------

#     sum of weights[u] r_u >= demand        r_u = 1 if u is computed more than once
#
# With some r_u decided the demand is less, and no other weight need be above it: one such node alone is then enough.


MOST_AT_ONCE = 8
"""Inequalities added for one choice of nodes."""

MOST_AT_FIRST = 300
"""Inequalities to begin with: those that cost most."""

Decided = Mapping[int, bool]
"""By node: is it computed more than once?"""


ARCS = ("again", "reads", "closes")
"""Kinds of arcs of `MomentFlow`; the others follow from them."""


@dataclass(frozen=True, eq=False)
class Cover:
    """The flow of an inequality: its terms are these amounts."""

    node: int
    price: Fraction
    arcs: dict[str, tuple[Array, Array]]
    """By name in `MomentFlow`: where there is any flow, and how much."""
    demand: int
    """Rounded up once."""

    @classmethod
    def of(cls, cut: FlowCut, moments: Moments, budget: int) -> Cover:
        """The flow of a cut, found again; it takes no more by any arc `again`, perhaps less by some."""
        again = np.zeros(len(moments.size), np.int64)
        for u, weight in cut.terms:
            again[u] = weight
        retained = np.array([int(cut.price * size // 1) for size in moments.graph.sizes], np.int64)
        flow = moments.network.flow(cut.node, again, retained)
        arcs = {name: (np.flatnonzero(amounts := getattr(flow, name)), amounts[amounts != 0]) for name in ARCS}
        inputs = moments.graph.predecessors[cut.node]  # are there whatever is paid for them, without rounding
        rest = flow.value - int(retained[list(inputs)].sum())
        room = budget - cut.own - sum(moments.graph.sizes[u] for u in inputs)
        return cls(cut.node, cut.price, arcs, math.ceil(rest - cut.price * room))


@dataclass(frozen=True, eq=False)
class Residues:
    """What is left of all inequalities where some nodes are decided."""

    demand: Array
    """int64[k], 0 or less where it is met."""
    weights: Array
    """int64[k, n]: none above the demand, 0 for nodes that are decided."""

    def unmet(self, values: Array, least: float) -> Array:
        """Inequalities for which `values`, float64[n], leaves a larger share than `least`, the largest share first."""
        share = np.where(self.demand > 0, 1 - self.weights @ values / np.maximum(self.demand, 1), 0.0)
        order = np.argsort(-share, kind="stable")
        return order[: int((share > least).sum())]

    def refuted(self) -> int | None:
        """The index of an inequality that cannot be met."""
        for k in self.unmet(np.ones(self.weights.shape[1]), -1e-6).tolist():  # floating point for a first look
            if sum(self.weights[k].tolist()) < int(self.demand[k]):
                return k
        return None


class Pool:
    """All inequalities known, and where others come from."""

    def __init__(self, moments: Moments, budget: int, at_hand: bool = True) -> None:
        """None are known.

        Args:
            at_hand: is what a computation reads and writes in memory? If not, it counts as computed more than once.
        """
        self.at_hand = at_hand
        self.moments, self.budget, self.graph = moments, budget, moments.graph
        self.covers: list[Cover] = []
        self._demand = np.zeros(0, np.int64)
        self._weights = np.zeros((0, len(self.graph.nodes)), np.int64)
        self._pressed: list[int] | None = None

    def residues(self, decided: Decided) -> Residues:
        """What is left of the inequalities."""
        again = [u for u, more in decided.items() if more]
        demand = self._demand - np.minimum(self._weights[:, again], self._demand[:, None]).sum(axis=1)
        weights = np.minimum(self._weights, np.maximum(demand, 0)[:, None])
        weights[:, list(decided)] = 0
        return Residues(demand, weights)

    def begin(self, stop: Callable[[], bool]) -> None:
        """Look at all nodes once: those that need others to be recomputed, with the most that they cost."""
        self._pressed, found = [], list[FlowCut]()
        for v in self._heaviest():
            if stop():
                break
            cut = self.moments.kept(v)
            if cut.demand(self.budget) > 0:
                self._pressed.append(v)
                priced = self.moments.priced(v, self.budget)
                found.append(cut if priced is None or priced.demand(self.budget) <= 0 else priced)
        found.sort(key=lambda cut: (cut.scale > 0, -cut.bound(self.budget)))
        self._add(found[:MOST_AT_FIRST])

    def _heaviest(self) -> list[int]:
        """The nodes, first those at which the input order needs most memory."""
        order = self.graph.input_order()
        memory = dict(zip(order, simulate(self.graph, order).memory, strict=True))
        return sorted(order, key=lambda v: -memory[v])

    def separate(self, again: Array, stop: Callable[[], bool]) -> bool:
        """Add inequalities that are violated if only the nodes of `again`, bool[n], are computed more than once.

        Returns:
            Were there any?
        """
        found: list[FlowCut] = []
        for v in self._pressed or ():
            if len(found) == MOST_AT_ONCE or stop():
                break
            cut = self.moments.kept(v, again)
            found += [cut] if cut.demand(self.budget) > 0 else []
        latest = [cut.node for cut in found]
        self._pressed = [*latest, *(v for v in self._pressed or () if v not in latest)]  # mostly the next ones, too
        self._add(found)
        return bool(found)

    def needed(self, cover: Cover) -> list[tuple[int, int]]:
        """What a computation needs that may not be in memory: nodes, each with the memory that it takes there."""
        if self.at_hand:
            return []
        inputs = self.graph.predecessors[cover.node]
        return [(cover.node, self.moments.own[cover.node]), *((u, self.graph.sizes[u]) for u in inputs)]

    def _add(self, cuts: list[FlowCut]) -> None:
        weights = np.zeros((len(cuts), len(self.graph.nodes)), np.int64)
        covers = [Cover.of(cut, self.moments, self.budget) for cut in cuts]
        for row, cover in zip(weights, covers, strict=True):
            nodes, amounts = cover.arcs["again"]
            row[nodes] = amounts
            for u, amount in self.needed(cover):
                row[u] += math.ceil(cover.price * amount)
        self.covers += covers
        self._demand = np.append(self._demand, [cover.demand for cover in covers]).astype(np.int64)
        self._weights = np.vstack([self._weights, weights])


# --- The linear relaxation, and its bound in exact integers ---------------------------------------------------

# GLOP of OR-Tools solves it in floating point; its duals y, whatever they are worth, bound the cost::
#
#     sum of w_u r_u  >=  sum of y_i demand_i  +  sum over u of min(0, w_u - sum of y_i weight_iu)        y >= 0


BITS = (0, 12, 24, 36, 48, 60)
"""Binary places of multipliers: as few as do."""
_AT_ONCE = 10
"""Inequalities added to a linear program that does not satisfy them."""
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Multipliers:
    """Factors of inequalities, by index, over 2^bits."""

    bits: int = 0
    factors: tuple[tuple[int, int], ...] = ()

    def bound(self, left: Residues, durations: Sequence[int]) -> int:
        """A lower bound on the cost of undecided nodes that the cases prove, rounded up."""
        value, prices = 0, dict[int, int]()
        for k, factor in self.factors:
            demand = int(left.demand[k])
            if demand > 0:
                value += factor * demand
                for u in np.flatnonzero(left.weights[k]).tolist():
                    prices[u] = prices.get(u, 0) + factor * int(left.weights[k, u])
        value += sum(min(0, (durations[u] << self.bits) - price) for u, price in prices.items())
        return -(-value >> self.bits)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A solution of the relaxation; all nodes and no duals where GLOP finds none."""

    values: Array
    """float64[n], 0 for nodes that are decided."""
    duals: dict[int, float]
    """By index, of inequalities in whose place nothing better is known."""


def relax(left: Residues, durations: Sequence[int], known: Sequence[int]) -> Relaxed:
    """Solve the relaxation of inequalities that can be met.

    Args:
        durations: by node.
        known: indices of inequalities to begin with.
    """
    used = [k for k in known if left.demand[k] > 0]
    while True:
        relaxed = _solve(left, durations, used)
        further = [k for k in left.unmet(relaxed.values, _TOLERANCE).tolist() if k not in used]
        if not further:
            return relaxed
        used += further[:_AT_ONCE]


def _solve(left: Residues, durations: Sequence[int], used: Sequence[int]) -> Relaxed:
    from ortools.linear_solver import pywraplp

    values = np.zeros(left.weights.shape[1])
    if not used:
        return Relaxed(values, {})
    rows = left.weights[used] / left.demand[used][:, None]
    nodes = np.flatnonzero(rows.any(axis=0)).tolist()
    unit = max((durations[u] for u in nodes), default=0) or 1
    solver = pywraplp.Solver.CreateSolver("GLOP")
    columns = {u: solver.NumVar(0.0, 1.0, "") for u in nodes}
    for u, column in columns.items():
        solver.Objective().SetCoefficient(column, durations[u] / unit)
    constraints = [solver.Constraint(1.0, solver.infinity()) for _ in used]
    for constraint, row in zip(constraints, rows, strict=True):
        for u in np.flatnonzero(row).tolist():
            constraint.SetCoefficient(columns[u], float(row[u]))
    if solver.Solve() != solver.OPTIMAL:  # by rounding, as all nodes together meet everything
        values[nodes] = 1.0
        return Relaxed(values, {})
    for u, column in columns.items():
        values[u] = column.solution_value()
    duals = {k: one.dual_value() * unit / int(left.demand[k]) for k, one in zip(used, constraints, strict=True)}
    return Relaxed(values, {k: dual for k, dual in duals.items() if dual > 0})


def multipliers(left: Residues, durations: Sequence[int], relaxed: Relaxed, enough: int) -> tuple[int, Multipliers]:
    """The best bound that duals prove exactly, or `enough`, and the coarsest multipliers that do."""
    best = 0, Multipliers()
    for bits in BITS:
        factors = tuple((k, factor) for k, dual in relaxed.duals.items() if (factor := int(math.ldexp(dual, bits))))
        one = Multipliers(bits, factors)
        best = max(best, (one.bound(left, durations), one), key=lambda pair: pair[0])
        if best[0] >= enough:
            break
    return best


# --- Branch and bound -----------------------------------------------------------------------------------------

LEVELS = (1e-6, 0.3, 0.7, 1 - 1e-6)
"""Nodes with values above are taken as recomputed where inequalities are sought."""
GAIN = 0.002
"""Part by which a bound is to grow, or values that are no integers are asked for no more inequalities."""
DEEPEST = 3
"""With this many nodes decided only integers are asked."""
NEVER = 2**200
"""The bound of a case that cannot be."""


@dataclass(eq=False)
class Case:
    """One case, and those below it."""

    decided: Mapping[Any, bool]
    bound: int
    """No schedule of this case adds less to the duration."""
    multipliers: Multipliers
    """Which prove it, of the inequalities with what is decided here."""
    known: Sequence[int] = ()
    """Inequalities that mattered in the case above it."""
    refuted: Multipliers | None = None
    """Multipliers of inequalities that cannot be met together."""
    branch: int | tuple[str, int, int] | None = None
    """What distinguishes the cases below: a node, or a variable of blocks."""
    below: tuple[Case, ...] = ()
    """With that not so, and so."""


@dataclass
class Cases:
    """The search for one bound."""

    pool: Pool
    target: int | None
    """No bound above it is of use; in units of `Moments`, as all costs here. It falls to the cost of the best choice of
    nodes that violates no inequality. None: there may be no schedule at all."""
    stop: Callable[[], bool]
    _tie: Iterator[int] = field(default_factory=count)

    def run(self) -> Case:
        """The tree, as far as `stop` allows."""
        self.pool.begin(self.stop)
        top = Case({}, 0, Multipliers())
        below = self._look(top)  # even if all time is up by now
        waiting = sorted((one.bound, next(self._tie), one) for one in below)
        while waiting and not self.stop() and not self._enough(waiting[0][0]):
            case = heapq.heappop(waiting)[-1]
            for one in self._look(case):
                heapq.heappush(waiting, (one.bound, next(self._tie), one))
        return top

    def _enough(self, bound: int) -> bool:
        return self.target is not None and bound >= self.target

    def _paid(self, decided: Decided) -> int:
        return sum(self.pool.moments.duration[u] for u, again in decided.items() if again)

    def _look(self, case: Case) -> tuple[Case, ...]:
        """Improve the bound of a case; the cases below it, if that is not enough."""
        grows = len(case.decided) < DEEPEST
        while True:
            left = self.pool.residues(case.decided)
            if self._refuted(case, left):
                return ()
            before = case.bound
            values = self._relaxed(case, left)
            if self._enough(case.bound) or self.stop():
                return ()
            undecided = np.flatnonzero((values > LEVELS[0]) & (values < LEVELS[-1])).tolist()
            grows = grows and case.bound > before + GAIN * before
            if (undecided and not grows) or not self._separate(case.decided, values):
                break
        return self._branch(case, undecided, values) if undecided else self._settle(case, values)

    def _refuted(self, case: Case, left: Residues) -> bool:
        unmet = left.refuted()
        if unmet is not None:
            case.bound, case.refuted = NEVER, Multipliers(0, ((unmet, 1),))
        return unmet is not None

    def _relaxed(self, case: Case, left: Residues) -> Array:
        """The values of the relaxation, float64[n]; improves the bound."""
        durations, paid = self.pool.moments.duration, self._paid(case.decided)
        relaxed = relax(left, durations, case.known)
        case.known = list(relaxed.duals)
        enough = NEVER if self.target is None else self.target
        bound, factors = multipliers(left, durations, relaxed, enough - paid)
        if paid + bound > case.bound:
            case.bound, case.multipliers = paid + bound, factors
        return relaxed.values

    def _separate(self, decided: Decided, values: Array) -> bool:
        """Add inequalities that the values of a relaxation violate; False if none were found."""
        at, tried = values.copy(), set()
        at[[u for u, again in decided.items() if again]] = 1.0
        for level in LEVELS:
            again = at > level
            if again.tobytes() in tried:
                continue
            tried.add(again.tobytes())
            before = len(self.pool.covers)
            if self.pool.separate(again, self.stop):
                unmet = self.pool.residues(decided).unmet(values, 1e-6)
                if (unmet >= before).any():
                    return True
        return False

    def _branch(self, case: Case, among: Iterable[int], values: Array) -> tuple[Case, ...]:
        """Decide one of some nodes."""
        durations = self.pool.moments.duration
        u = max(among, key=lambda u: (min(values[u], 1 - values[u]) * durations[u], u))
        case.branch = u
        case.below = tuple(self._below(case, {**case.decided, u: again}) for again in (False, True))
        return tuple(one for one in case.below if not self._enough(one.bound))

    def _below(self, case: Case, decided: Decided) -> Case:
        """A case with the multipliers of the one above it."""
        bound = case.multipliers.bound(self.pool.residues(decided), self.pool.moments.duration)
        return Case(decided, self._paid(decided) + bound, case.multipliers, case.known)

    def _settle(self, case: Case, values: Array) -> tuple[Case, ...]:
        """The solution is a choice of nodes that violates nothing: no bound is above its cost."""
        chosen = np.flatnonzero(values > 0.5).tolist()
        cost = self._paid({**case.decided, **dict.fromkeys(chosen, True)})
        if self.target is None or cost < self.target:
            self.target = cost
        return () if self._enough(case.bound) or not chosen else self._branch(case, chosen, values)


def in_order(top: Case, enough: int = NEVER) -> list[Case]:
    """A case before those below it, all below r = 0 before those below r = 1; none below a case with a bound that is
    enough."""
    cases, waiting = [], [top]
    while waiting:
        cases.append(waiting.pop())
        if cases[-1].bound < enough:
            waiting += reversed(cases[-1].below)
    return cases


def proven(top: Case) -> int | None:
    """The cost that a tree proves; None: there is no schedule."""
    bounds = dict[Case, int]()
    for case in reversed(in_order(top)):
        bounds[case] = max(case.bound, min((bounds[one] for one in case.below), default=0))
    return None if bounds[top] >= NEVER else bounds[top]
