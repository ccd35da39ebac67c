"""Bounds of floats that are declared without any.

What the constraints imply, by interval propagation in fractions; and, where a float is only ever held up by constraints
and nobody wants it high, the greatest value that they can hold it up to: some solution as good has it there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from fractions import Fraction
from math import inf, isfinite

from moccasin_mzn.solvers.cpsat.builder import ModelError
from moccasin_mzn.solvers.cpsat.floats.items import ONE, Call, Form, Reading, Row, fraction
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, FlatZinc, FlatZincError, FloatSet, Variable

Bounds = tuple[Fraction | float, Fraction | float]
"""Least and greatest value, perhaps infinite."""
MOST_UPDATES = 30
"""How often the bounds of one float may improve: some pairs of constraints would go on forever."""
UNFIT = (FlatZincError, ValueError, LookupError, ArithmeticError, TypeError)
"""What a constraint raises that is not what it should be, which is told where it is taken."""


def declared_bounds(variable: Variable) -> Bounds:
    """Least and greatest value of a variable by its type; of bools as 0 and 1."""
    domain = variable.domain
    if variable.is_bool:
        return Fraction(0), ONE
    if isinstance(domain, FloatSet):
        low, high = domain.low, domain.high
        return fraction(low) if isfinite(low) else low, fraction(high) if isfinite(high) else high
    if domain is None:
        return -inf, inf
    return (Fraction(domain.ranges[0][0]), Fraction(domain.ranges[-1][1])) if domain.ranges else (ONE, ONE)


class FloatBounds:
    """What the constraints on floats of a file imply beyond the types of its variables."""

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.known = {name: declared_bounds(each) for name, each in file.variables.items()}
        self.mentions: dict[str, list[Row | Call]] = defaultdict(list)
        self.unread: set[str] = set()
        """Floats of constraints that nothing is known of."""
        self._updates: dict[str, int] = defaultdict(int)
        self._queue: deque[Row | Call] = deque()
        self._reading = Reading(
            file, {name: Form({name: ONE}) for name, each in file.variables.items() if each.is_float}
        )
        self._read()
        self._propagate()

    def of(self, name: str) -> Bounds:
        """Bounds of a float; some solution of the file within them is as good as any."""
        low, high = self.known[name]
        objective, goal = self.file.solve.objective, self.file.solve.goal
        if high == inf and not (name == objective and goal == "maximize"):
            high = self._held(name, -1)
        if low == -inf and not (name == objective and goal == "minimize"):
            low = -self._held(name, 1)
        return low, high

    def _read(self) -> None:
        assigned = ((each, self.file.positions[each.name]) for each in self.file.variables.values())
        sides = [
            Constraint("float_eq", [one.name, one.value], at)
            for one, at in assigned
            if one.is_float and one.value is not None
        ]
        for item in (*sides, *(item for item in self.file.constraints if "float" in item.name)):
            try:
                taken = self._reading.take(item)
            except UNFIT:
                self.unread.update(name for argument in item.arguments for name in self._floats(argument))
                continue
            bases = _bases(taken)
            for base in bases:
                self.mentions[base].append(taken)
            self._queue.append(taken)

    def _floats(self, argument: object) -> Iterable[str]:
        try:
            return list(self._reading.floats(argument))
        except ModelError:
            return ()

    def _propagate(self) -> None:
        while self._queue:
            item = self._queue.popleft()
            if item.condition:
                continue
            if isinstance(item, Row):
                self._row(item)
            else:
                self._call(item)

    def _row(self, row: Row) -> None:
        if row.relation == "ne":
            return
        self._at_most_0(row.form)
        if row.relation == "eq":
            self._at_most_0(row.form.times(-ONE))

    def _at_most_0(self, form: Form) -> None:
        for base, factor in form.factors.items():
            rest = Form({each: value for each, value in form.factors.items() if each != base}, form.constant)
            least = self.interval(rest)[0]
            if least != -inf:
                end = -least / factor
                self._narrow(base, (-inf, end) if factor > 0 else (end, inf))

    def _call(self, call: Call) -> None:
        """The result of a function of others."""
        result = call.arguments[call.target]
        if type(result) is not Form or list(result.factors.values()) != [ONE] or result.constant:
            return
        (name,) = result.factors
        ends = [self.interval(form) for form in call.forms() if form is not result]
        if call.name == "set_in":
            spans = call.arguments[1].ends()
            bounds: Bounds = (min(spans), max(spans)) if spans else (-inf, inf)
        elif call.name == "int_times":
            corners = [one * other if one and other else 0 for one in ends[0] for other in ends[1]]
            bounds = min(corners), max(corners)
        elif call.name == "int_abs":
            bounds = 0, max(-ends[0][0], ends[0][1])
        elif ends:
            bounds = min(low for low, _ in ends), max(high for _, high in ends)
        else:
            return
        self._narrow(name, bounds)

    def interval(self, form: Form) -> Bounds:
        """The least and the greatest value of a form."""
        low: Fraction | float = form.constant
        high: Fraction | float = form.constant
        for base, factor in form.factors.items():
            ends = [factor * end for end in self.known.get(base, (-inf, inf))]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _narrow(self, name: str, bounds: Bounds) -> None:
        low, high = self.known.get(name, (-inf, inf))
        narrowed = max(low, bounds[0]), min(high, bounds[1])
        if narrowed == (low, high) or narrowed[0] > narrowed[1] or self._updates[name] == MOST_UPDATES:
            return  # what contradicts itself is left to the solver
        self._updates[name] += 1
        self.known[name] = narrowed
        self._queue.extend(self.mentions[name])

    def _held(self, name: str, sign: int) -> Fraction | float:
        """For sign -1 the greatest value up to which constraints `... - name <= 0` hold a float up; infinite if there
        is another constraint on it, or no such value. For sign 1 the same of its negation."""
        own = self.known[name][0] if sign < 0 else -self.known[name][1]
        if name in self.unread or (own == -inf and not self.mentions[name]):
            return inf
        levels = [own]
        for item in self.mentions[name]:
            if not isinstance(item, Row) or item.relation != "le" or item.condition == "_reif":
                return inf
            factor = item.form.factors[name]
            if factor * sign < 0:
                return inf
            rest = {base: value for base, value in item.form.factors.items() if base != name}
            levels.append(self.interval(Form(rest, item.form.constant).times(1 / abs(factor)))[1])
        return max(levels)


def _bases(item: Row | Call) -> set[str]:
    forms = [item.form] if isinstance(item, Row) else item.forms()
    return {base for form in forms for base in form.factors}
