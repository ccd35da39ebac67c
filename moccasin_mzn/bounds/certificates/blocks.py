"""The block relaxation (see `bounds.relaxation`) as the judge's rules, and cases that prove its bound.

Variables and rules are those of `problem/judges/certificates.py`. Only rules that can matter are taken: an output of
size 0 is retained for ever, and what is not read any more is neither retained nor recomputed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from moccasin_mzn.bounds.certificates.cases import BITS, NEVER, Case, Multipliers
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.graph import ComputationGraph

Variable = tuple[str, int, int]
"""Kind, sight or block, node as a position in `graph.nodes`."""
Terms = dict[tuple[Variable, bool], int]
"""The weights of what is so, or not so."""
Decided = Mapping[Variable, bool]
Rule = tuple[str, int, int] | tuple[str, int, int, int]
"""The name of a rule of the judge, its block, and its nodes, positions in `graph.nodes`."""
INTEGRAL = 1e-6
TRIED = 6
"""Variables to branch on whose cases are both looked at, to take the one that gains most."""


@dataclass(frozen=True)
class Row:
    """sum of terms >= demand: a rule of the judge."""

    rule: Rule
    """The name, block and nodes of the rule."""
    terms: Terms
    demand: int

    def left(self, decided: Decided) -> tuple[Terms, int]:
        """Terms that are not decided, none over the demand that is left, and that; with no terms if it is met."""
        demand = self.demand - sum(w for (of, is_so), w in self.terms.items() if decided.get(of) is is_so)
        if demand <= 0:
            return {}, 0
        return {one: min(w, demand) for one, w in self.terms.items() if one[0] not in decided}, demand


@dataclass(frozen=True)
class Blocks:
    """The rules of a relaxation."""

    graph: ComputationGraph
    budget: int
    relaxation: Relaxation
    order: Sequence[int]
    """Positions in `graph.nodes`; those in the relaxation are positions in this."""
    is_computed: bool = True
    """Does what is in memory again read its inputs?"""

    @property
    def sights(self) -> list[int]:
        """Positions in `graph.nodes`."""
        return [self.order[k] for k in self.relaxation.chosen]

    @cached_property
    def unit(self) -> int:
        """Durations are counted in this."""
        return math.gcd(*self.graph.durations) or 1

    def cost(self, variable: Variable) -> int:
        """What is paid if it is so."""
        return self.graph.durations[variable[2]] // self.unit if variable[0] == "again" else 0

    @cached_property
    def rows(self) -> list[Row]:
        """All rules that can matter."""
        return [row for row in map(self._in_unknowns, self._rows()) if 0 < row.demand <= sum(row.terms.values())]

    def _rows(self) -> Iterator[Row]:
        relaxation, order = self.relaxation, self.order
        for j in range(len(relaxation.chosen) + 1):
            before, last, seen = relaxation.before(j), relaxation.last(j), j < len(relaxation.chosen)
            again = {order[u] for u in relaxation.again[j] if self.graph.sizes[order[u]]}
            old = {order[u] for u in range(before + 1)}
            new = {order[x] for x in range(before + 1, last + 1)}
            for u in old:
                readers = [w for w in self.graph.successors[u] if w in new or w in again] if self.graph.sizes[u] else ()
                for w in readers if self.is_computed else [w for w in readers if w in new]:
                    more = [(("again", j, w), False)] if w in old else []
                    yield self._clause(("rereads" if w in old else "reads", j, u, w), *self._there(j, u), *more)
            if seen:
                yield self._budget(("sight", j, order[last]), "held", range(len(order)))
                for u in (order[u] for u in relaxation.retained[j] if u <= before):
                    if self.graph.sizes[u]:
                        yield self._clause(("keeps", j, u), *self._there(j, u), (("held", j, u), False))
            if seen and j and relaxation.looks_inside(j) and self.is_computed:
                yield from self._moments(j, old, again)

    def _moments(self, j: int, old: set[int], again: set[int]) -> Iterator[Row]:
        ended = {self.order[u] for u in self.relaxation.retained[j]}
        for u in old & ended:
            if self.graph.sizes[u]:
                ends = (("held", j - 1, u), False), (("held", j, u), False)
                yield self._clause(("spans", j, u), (("again", j, u), True), (("through", j, u), True), *ends)
        for v in again:
            yield self._budget(("during", j, v), "through", old, (("again", j, v), False))

    def _there(self, j: int, u: int) -> tuple[tuple[Variable, bool], ...]:
        return (("again", j, u), True), (("held", j - 1, u), True)

    def _clause(self, rule: Rule, *ones: tuple[Variable, bool]) -> Row:
        return Row(rule, dict.fromkeys(ones, 1), 1)

    def _budget(
        self, rule: tuple[str, int, int], kind: str, among: Sequence[int] | set[int], *unless: tuple[Variable, bool]
    ) -> Row:
        (_, j, v), size = rule, self.graph.sizes
        own = {v, *self.graph.predecessors[v]}
        terms = {((kind, j, u), False): size[u] for u in among if u not in own and size[u]}
        demand = sum(terms.values()) + sum(size[u] for u in own) + self.graph.workspace_of[v] - self.budget
        return Row(rule, {**terms, **dict.fromkeys(unless, max(0, demand))}, demand)

    def _in_unknowns(self, row: Row) -> Row:
        """The row without what is known to be retained, or not to be there yet."""
        known = {of: value for of, _ in row.terms if (value := self._known(of)) is not None}
        terms = {one: w for one, w in row.terms.items() if one[0] not in known}
        return Row(
            row.rule, terms, row.demand - sum(w for (of, is_so), w in row.terms.items() if known.get(of) is is_so)
        )

    def _known(self, variable: Variable) -> bool | None:
        kind, j, u = variable
        if kind != "held":
            return None
        sight = self.sights[j]
        if u == sight or u in self.graph.predecessors[sight]:
            return True
        return False if self._place[u] > self.relaxation.chosen[j] else None

    @cached_property
    def _place(self) -> dict[int, int]:
        return {v: k for k, v in enumerate(self.order)}


class _Relaxed:
    """The linear relaxation of all rows, solved again and again with other variables decided.

    One more column, of all rows, states by how much they cannot be met.
    """

    def __init__(self, blocks: Blocks) -> None:
        from ortools.linear_solver import pywraplp

        self.rows, self._solver = blocks.rows, pywraplp.Solver.CreateSolver("GLOP")
        solver, self._unit = (
            self._solver,
            max(map(blocks.cost, {of for row in self.rows for of, _ in row.terms}), default=0) or 1,
        )
        self.columns = {of: solver.NumVar(0.0, 1.0, "") for row in self.rows for of, _ in row.terms}
        self._cost = {of: blocks.cost(of) / self._unit for of in self.columns}
        self._unmet = solver.NumVar(0.0, 0.0, "")
        self._constraints = []
        for row in self.rows:
            terms, demand = row.left({})
            missing = demand - sum(w for (_, is_so), w in terms.items() if not is_so)
            constraint = solver.Constraint(missing / demand, solver.infinity())
            for (of, is_so), weight in terms.items():
                share = weight / demand if is_so else -weight / demand
                constraint.SetCoefficient(self.columns[of], constraint.GetCoefficient(self.columns[of]) + share)
            constraint.SetCoefficient(self._unmet, 1.0)
            self._constraints.append(constraint)
        self._fixed: Decided = {}
        self._pay(True)

    def _pay(self, costs: bool) -> None:
        """Least cost; or least of what cannot be met."""
        objective = self._solver.Objective()
        for of, column in self.columns.items():
            if self._cost[of]:
                objective.SetCoefficient(column, self._cost[of] if costs else 0.0)
        objective.SetCoefficient(self._unmet, 0.0 if costs else 1.0)
        objective.SetMinimization()
        self._unmet.SetBounds(0.0, 0.0 if costs else self._solver.infinity())

    def solve(self, decided: Decided) -> tuple[dict[int, float], dict[Variable, float] | None]:
        """Duals of rows, by index, and the values of the solution; None if absent, and the duals prove that."""
        for of in {*self._fixed, *decided} & self.columns.keys():
            value = decided.get(of)
            self.columns[of].SetBounds(*((0.0, 1.0) if value is None else (float(value),) * 2))
        self._fixed = dict(decided)
        if self._solver.Solve() == self._solver.OPTIMAL:
            return self._duals(self._unit), {of: column.solution_value() for of, column in self.columns.items()}
        self._pay(False)
        solved = self._solver.Solve() == self._solver.OPTIMAL
        duals = self._duals(1) if solved else {}
        self._pay(True)
        return duals, None

    def _duals(self, unit: float) -> dict[int, float]:
        found = ((k, one.dual_value() * unit / self.rows[k].demand) for k, one in enumerate(self._constraints))
        return {k: dual for k, dual in found if dual > 0}


@dataclass
class BlockCases:
    """Branch and bound, the case of the least bound first."""

    blocks: Blocks
    target: int | None
    """No bound above it is of use, in the unit of `blocks`: it falls to the cost of the best solution of the
    relaxation. None: there may be no schedule at all."""
    stop: Callable[[], bool]
    relaxed: _Relaxed = field(init=False)
    _tie: Iterator[int] = field(default_factory=count)

    def run(self) -> Case:
        """The tree, as far as `stop` allows."""
        self.relaxed, top = _Relaxed(self.blocks), Case({}, 0, Multipliers())
        waiting = [(0, next(self._tie), top, self._bounded(top))]  # values of None: nothing is known to branch on
        while waiting and not self.stop() and not self._enough(waiting[0][0]):
            _, _, case, values = heapq.heappop(waiting)
            for below, of_it in self._below(case, values):
                heapq.heappush(waiting, (below.bound, next(self._tie), below, of_it))
        return top

    def _enough(self, bound: int) -> bool:
        return bound >= (NEVER if self.target is None else self.target)

    def _bounded(self, case: Case) -> dict[Variable, float] | None:
        """Improve the bound of a case by its relaxation; the values of that."""
        duals, values = self.relaxed.solve(case.decided)
        if values is None:
            refuted = self._certain(case.decided, duals, 0)
            if refuted[0] > 0:
                case.bound, case.refuted = NEVER, refuted[1]
            return None
        bound, factors = self._certain(case.decided, duals, 1)
        if bound > case.bound:
            case.bound, case.multipliers = bound, factors
        return values

    def _certain(self, decided: Decided, duals: Mapping[int, float], pay: int) -> tuple[int, Multipliers]:
        """The best bound that duals prove exactly, or enough of one, and the coarsest multipliers that do."""
        enough, best = (NEVER if self.target is None else self.target) if pay else 1, (0, Multipliers())
        scale = 1.0 if pay else 1.0 / (max(duals.values(), default=1.0) or 1.0)
        for bits in BITS:
            factors = tuple((k, n) for k, dual in duals.items() if (n := int(math.ldexp(dual * scale, bits))))
            best = max(
                best, (self._value(decided, factors, pay << bits), Multipliers(bits, factors)), key=lambda one: one[0]
            )
            if best[0] >= enough:
                break
        return best

    def _value(self, decided: Decided, factors: Sequence[tuple[int, int]], unit: int) -> int:
        """What the judge makes of multipliers: a bound on what is paid, or, if the unit is 0, more than 0 if it cannot
        be."""
        value, priced = 0, dict[Variable, list[int]]()
        for k, factor in factors:
            terms, demand = self.blocks.rows[k].left(decided)
            value += factor * demand
            for (of, is_so), weight in terms.items():
                priced.setdefault(of, [0, 0])[is_so] += factor * weight
        value += sum(min(unit * self.blocks.cost(of) - so, -not_so) for of, (not_so, so) in priced.items())
        if not unit:
            return value
        return -(-(value + unit * sum(self.blocks.cost(of) for of, is_so in decided.items() if is_so)) // unit)

    def _below(
        self, case: Case, values: Mapping[Variable, float] | None
    ) -> Iterator[tuple[Case, dict[Variable, float] | None]]:
        """Branch on what gains most, of what is broken most; in a solution, on what it pays for."""
        if values is None:
            return
        broken = [of for of, value in values.items() if INTEGRAL < value < 1 - INTEGRAL]
        if not broken:
            paid = [of for of, value in values.items() if value > 0.5 and self.blocks.cost(of)]
            cost = sum(self.blocks.cost(of) for of in paid)
            self.target = cost if self.target is None else min(cost, self.target)
            broken = [of for of in paid if of not in case.decided and not self._enough(case.bound)]
        if not broken:
            return
        weight = {of: max(INTEGRAL, min(values[of], 1 - values[of])) * (1 + self.blocks.cost(of)) for of in broken}
        found: list[tuple[int, Variable, list[tuple[Case, dict[Variable, float] | None]]]] = []
        for of in sorted(broken, key=lambda of: (-weight[of], of))[:TRIED]:
            cases = [Case({**case.decided, of: is_so}, case.bound, case.multipliers) for is_so in (False, True)]
            tried = [(one, self._bounded(one)) for one in cases]
            found.append((min(one.bound for one in cases), of, tried))
            if self._enough(found[-1][0]) or self.stop():
                break
        _, case.branch, below = max(found, key=lambda one: (one[0], sum(min(c.bound, 2 * one[0]) for c, _ in one[2])))
        case.below = tuple(one for one, _ in below)
        yield from (one for one in below if not self._enough(one[0].bound))
