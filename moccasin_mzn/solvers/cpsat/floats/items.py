"""The constraints on floats: linear rows, and calls of functions that integers have as well."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, isfinite, lcm
from typing import Any, NamedTuple, TypeAlias

from moccasin_mzn.solvers.cpsat.builder import ModelError
from moccasin_mzn.solvers.flatzinc.syntax import (
    Constraint,
    Expression,
    FlatZinc,
    FlatZincError,
    FloatSet,
    UnsupportedError,
    Variable,
    describe,
)

ONE = Fraction(1)


class FloatRow(NamedTuple):
    """The form compares with 0 by `relation`, if `condition` is empty; else "_reif" or "_imp" of `bools`."""

    item: Constraint
    relation: str
    form: Form
    condition: str
    bools: list[Expression]


class Ranges(NamedTuple):
    """A set of floats as closed ranges."""

    ranges: list[tuple[Fraction, Fraction]]

    def ends(self) -> list[Fraction]:
        """All of them."""
        return [end for pair in self.ranges for end in pair]


Argument: TypeAlias = Any
"""What a call takes: a form, a list of them, ranges, or an expression that is passed on."""


class FloatCall(NamedTuple):
    """The integer constraint `name`, whose arguments are forms, lists of them, ranges, and what is passed on; that at
    `target` follows from the others."""

    item: Constraint
    name: str
    arguments: list[Argument]
    target: int
    condition: str = ""

    def forms(self) -> Iterator[Form]:
        """All operands that are floats."""
        for argument in self.arguments:
            yield from (each for each in (argument if type(argument) is list else [argument]) if type(each) is Form)


@dataclass(slots=True)
class Reading:
    """What the names of a file mean; `forms` holds the floats, as far as they are known."""

    file: FlatZinc
    forms: dict[str, Form]

    def form(self, value: Expression) -> Form:
        """A float operand; `ModelError` if it is something else."""
        if type(value) is str and value in self.forms:
            return self.forms[value]
        return Form({}, self.number(value, "a float"))

    def integer(self, value: Expression) -> Form:
        """An integer operand."""
        variable = self.file.variables.get(value) if type(value) is str else None
        if variable is not None and not variable.is_bool and not variable.is_float:
            return Form({variable.name: ONE})
        return Form({}, self.number(value, "an integer"))

    def number(self, value: Expression, wanted: str = "a float constant") -> Fraction:
        """A constant."""
        content = self.file.parameters.get(value, value) if type(value) is str else value
        if type(content) in (int, float):
            return fraction(content)
        if type(value) is str and value not in self.file.positions:
            raise ModelError(f"{value} is not declared")
        raise ModelError(f"{wanted} expected, found {describe(value)}")

    def elements(self, value: Expression) -> list[Expression]:
        """The elements of an array."""
        array = self.file.arrays.get(value) if type(value) is str else None
        content = array.elements if array else self.file.parameters.get(value) if type(value) is str else value
        if type(content) is not list:
            raise ModelError(f"an array expected, found {describe(value)}")
        return content

    def many(self, value: Expression) -> list[Form]:
        """An array of float operands."""
        return list(map(self.form, self.elements(value)))

    def floats(self, value: Expression) -> Iterator[str]:
        """The float variables in an argument."""
        if type(value) is list or (type(value) is str and value in self.file.arrays):
            for element in self.elements(value):
                yield from self.floats(element)
        elif type(value) is str and value in self.file.variables and self.file.variables[value].is_float:
            yield value

    def take(self, item: Constraint) -> FloatRow | FloatCall:
        """What a constraint states; `UnsupportedError` if there is nothing like it for integers."""
        condition = next((form for form in ("_reif", "_imp") if item.name.endswith(form)), "")
        stem = item.name.removesuffix(condition)
        arguments, bools = (item.arguments[:-1], item.arguments[-1:]) if condition else (item.arguments, [])
        if stem in SUMS:
            relation, total = SUMS[stem]
            return FloatRow(item, relation, total(self, *arguments), condition, bools)
        if stem in _PRODUCTS:
            weight, factor, result = _PRODUCTS[stem](*map(self.form, arguments))
            if not weight.factors:
                form = Form.total([(weight.constant, factor), (-ONE, result)])
                return FloatRow(item, "eq", form, condition, bools)
            if not condition:
                return FloatCall(item, "int_times", [weight, factor, result], 2)
            raise UnsupportedError(f"unsupported constraint {item.name}")
        if stem in _CALLS:
            name, target, read = _CALLS[stem]
            return FloatCall(item, f"{name}{condition}", [*read(self, *arguments), *bools], target, condition)
        raise UnsupportedError(f"unsupported constraint {item.name}")


def _weighted(reading: Reading, factors: Expression, terms: Expression, constant: Expression) -> Form:
    weights = map(reading.number, reading.elements(factors))
    return Form.total(zip(weights, reading.many(terms), strict=True), -reading.number(constant))


def _difference(reading: Reading, left: Expression, right: Expression) -> Form:
    return Form.total([(ONE, reading.form(left)), (-ONE, reading.form(right))])


def _plus(reading: Reading, left: Expression, right: Expression, total: Expression) -> Form:
    return Form.total([(ONE, reading.form(left)), (ONE, reading.form(right)), (-ONE, reading.form(total))])


def _same(reading: Reading, integer: Expression, number: Expression) -> Form:
    return Form.total([(ONE, reading.integer(integer)), (-ONE, reading.form(number))])


SUMS: dict[str, tuple[str, Callable[..., Form]]] = {
    **{f"float_lin_{relation}": (relation, _weighted) for relation in ("eq", "ne", "le", "lt")},
    **{f"float_{relation}": (relation, _difference) for relation in ("eq", "ne", "le", "lt")},
    "float_plus": ("eq", _plus),
    "float_minus": ("eq", lambda reading, left, right, rest: _plus(reading, right, rest, left)),
    "int2float": ("eq", _same),
}
"""Relation to 0, and the sum."""


def _times(left: Form, right: Form, result: Form) -> tuple[Form, Form, Form]:
    return (left, right, result) if not left.factors else (right, left, result)


def _over(left: Form, right: Form, result: Form) -> tuple[Form, Form, Form]:
    """left = right * result, which is equivalent if right is not 0."""
    if right.factors or not right.constant:
        raise UnsupportedError("unsupported constraint float_div by what is no constant, or 0")
    return Form({}, 1 / right.constant), left, result


_PRODUCTS = {"float_times": _times, "float_div": _over}


def _operands(reading: Reading, *values: Expression) -> list[Form]:
    return list(map(reading.form, values))


def _extreme(reading: Reading, result: Expression, values: Expression) -> list[Argument]:
    return [reading.form(result), reading.many(values)]


def _element(reading: Reading, index: Expression, values: Expression, result: Expression) -> list[Argument]:
    return [index, reading.many(values), reading.form(result)]


def _inside(reading: Reading, value: Expression, *ends: Expression) -> list[Argument]:
    numbers = list(map(reading.number, ends if len(ends) == 2 else reading.elements(*ends)))
    return [reading.form(value), Ranges(list(zip(numbers[::2], numbers[1::2], strict=True)))]


_CALLS: dict[str, tuple[str, int, Callable[..., list[Argument]]]] = {
    "float_max": ("int_max", 2, _operands),
    "float_min": ("int_min", 2, _operands),
    "float_abs": ("int_abs", 1, _operands),
    "array_float_maximum": ("array_int_maximum", 0, _extreme),
    "array_float_minimum": ("array_int_minimum", 0, _extreme),
    "array_float_element": ("array_var_int_element", 2, _element),
    "array_var_float_element": ("array_var_int_element", 2, _element),
    "float_in": ("set_in", 0, _inside),
    "float_dom": ("set_in", 0, _inside),
}
"""Name among the constraints on integers, the place of the result, and the arguments."""
KNOWN = {*SUMS, *_PRODUCTS, *_CALLS}
"""The constraints on floats, without their conditions."""


# --- Sums of integer variables with fractions as factors ------------------------------------------------------


SIMPLE = 1000
"""The largest denominator that is looked for in a double of many digits."""
DIGITS = 15
"""Decimal digits of a double that mean something; the last one or two come from rounding."""
NOISE = Fraction(1, 10**12)
"""How far, relative to it or to 1, a side may be from a multiple of the step and still be meant as one: MiniZinc adds
constants up in floating point."""


def fraction(number: float) -> Fraction:
    """What a double stands for: 1/3 where it rounds that, else its decimal digits, without those that sums of floats,
    which MiniZinc folds, leave at the end. OverflowError if it is infinite."""
    exact = Fraction(number)
    simple = exact.limit_denominator(SIMPLE)
    if abs(simple - exact) <= abs(exact) / 2**51:
        return simple
    return Fraction(f"{number:.{DIGITS}g}")


def at_most(side: Fraction, unit: Fraction) -> int:
    """The greatest number of steps of 1 / unit up to `side` steps, or one more if only noise is in between."""
    nearest = nearest_step(side, unit)
    return floor(side) if nearest is None else nearest


def nearest_step(side: Fraction, unit: Fraction) -> int | None:
    """The number of steps of 1 / unit that `side` steps are but for noise; None if they are not."""
    nearest = round(side)
    return nearest if abs(side - nearest) <= min(Fraction(1, 4), NOISE * max(unit, abs(side))) else None


@dataclass(frozen=True, slots=True)
class Form:
    """The number `sum factor * base + constant`; bases are the names of variables, and no factor is 0."""

    factors: Mapping[str, Fraction]
    constant: Fraction = Fraction(0)

    @staticmethod
    def total(parts: Iterable[tuple[Fraction, Form]], constant: Fraction = Fraction(0)) -> Form:
        """The sum of multiples of forms and a constant."""
        factors: dict[str, Fraction] = {}
        for weight, form in parts:
            constant += weight * form.constant
            for base, factor in form.factors.items():
                factors[base] = factors.get(base, Fraction(0)) + weight * factor
        return Form({base: factor for base, factor in factors.items() if factor}, constant)

    def times(self, weight: Fraction) -> Form:
        """A multiple of the form."""
        return Form.total([(weight, self)])

    def per_step(self, units: Mapping[str, int]) -> Form:
        """The form over integers that count steps of 1 / unit of the bases; those not in `units` are integers."""
        return Form({base: factor / units.get(base, 1) for base, factor in self.factors.items()}, self.constant)

    def denominator(self) -> int:
        """The number n such that all factors and the constant are multiples of 1/n."""
        return lcm(self.constant.denominator, *(factor.denominator for factor in self.factors.values()))


# --- Bounds of floats that are declared without any -----------------------------------------------------------

# What the constraints imply, by interval propagation in fractions; and, where a float is only ever kept up by
# constraints and nobody wants it high, the greatest value that they can hold it up to: some solution as good has it
# there.


Bounds = tuple[Fraction | float, Fraction | float]
"""Least and greatest value, perhaps infinite."""
MOST_UPDATES = 30
"""How often the bounds of one float may improve: some pairs of constraints would go on forever."""
UNFIT = (FlatZincError, ValueError, LookupError, ArithmeticError, TypeError)
"""What a constraint raises that is not what it should be, which is reported where it is taken."""


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
        self.mentions: dict[str, list[FloatRow | FloatCall]] = defaultdict(list)
        self.unread: set[str] = set()
        """Floats of constraints that nothing is known of."""
        self._updates: dict[str, int] = defaultdict(int)
        self._queue: deque[FloatRow | FloatCall] = deque()
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
            high = self._highest_needed(name, -1)
        if low == -inf and not (name == objective and goal == "minimize"):
            low = -self._highest_needed(name, 1)
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
            if isinstance(item, FloatRow):
                self._row(item)
            else:
                self._call(item)

    def _row(self, row: FloatRow) -> None:
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

    def _call(self, call: FloatCall) -> None:
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

    def _highest_needed(self, name: str, sign: int) -> Fraction | float:
        """For sign -1 the greatest value up to which constraints `... - name <= 0` hold a float up; infinite if there
        is another constraint on it, or no such value. For sign 1 the same of its negation."""
        own = self.known[name][0] if sign < 0 else -self.known[name][1]
        if name in self.unread or (own == -inf and not self.mentions[name]):
            return inf
        levels = [own]
        for item in self.mentions[name]:
            if not isinstance(item, FloatRow) or item.relation != "le" or item.condition == "_reif":
                return inf
            factor = item.form.factors[name]
            if factor * sign < 0:
                return inf
            rest = {base: value for base, value in item.form.factors.items() if base != name}
            levels.append(self.interval(Form(rest, item.form.constant).times(1 / abs(factor)))[1])
        return max(levels)


def _bases(item: FloatRow | FloatCall) -> set[str]:
    forms = [item.form] if isinstance(item, FloatRow) else item.forms()
    return {base for form in forms for base in form.factors}
