"""The constraints on floats: linear rows, and calls of functions that integers have as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm
from typing import Any, NamedTuple

from moccasin_mzn.solvers.cpsat.builder import ModelError
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, UnsupportedError, describe

ONE = Fraction(1)


class Row(NamedTuple):
    """The form compares with 0 as `relation` says, if `condition` is empty; else "_reif" or "_imp" of `bools`."""

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


class Call(NamedTuple):
    """The integer constraint `name`, whose arguments are forms, lists of them, ranges, and what is passed on; that at
    `target` follows from the others."""

    item: Constraint
    name: str
    arguments: list[Any]
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
        """A float operand; `ModelError` if it is none."""
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

    def take(self, item: Constraint) -> Row | Call:
        """What a constraint says; `UnsupportedError` if there is nothing like it for integers."""
        condition = next((form for form in ("_reif", "_imp") if item.name.endswith(form)), "")
        stem = item.name.removesuffix(condition)
        arguments, bools = (item.arguments[:-1], item.arguments[-1:]) if condition else (item.arguments, [])
        if stem in SUMS:
            relation, total = SUMS[stem]
            return Row(item, relation, total(self, *arguments), condition, bools)
        if stem in _PRODUCTS:
            weight, factor, result = _PRODUCTS[stem](*map(self.form, arguments))
            if not weight.factors:
                form = Form.total([(weight.constant, factor), (-ONE, result)])
                return Row(item, "eq", form, condition, bools)
            if not condition:
                return Call(item, "int_times", [weight, factor, result], 2)
            raise UnsupportedError(f"unsupported constraint {item.name}")
        if stem in _CALLS:
            name, target, read = _CALLS[stem]
            return Call(item, f"{name}{condition}", [*read(self, *arguments), *bools], target, condition)
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
    """left = right * result, which says no less if right is not 0."""
    if right.factors or not right.constant:
        raise UnsupportedError("unsupported constraint float_div by what is no constant, or 0")
    return Form({}, 1 / right.constant), left, result


_PRODUCTS = {"float_times": _times, "float_div": _over}


def _operands(reading: Reading, *values: Expression) -> list[Form]:
    return list(map(reading.form, values))


def _extreme(reading: Reading, result: Expression, values: Expression) -> list[Any]:
    return [reading.form(result), reading.many(values)]


def _element(reading: Reading, index: Expression, values: Expression, result: Expression) -> list[Any]:
    return [index, reading.many(values), reading.form(result)]


def _inside(reading: Reading, value: Expression, *ends: Expression) -> list[Any]:
    numbers = list(map(reading.number, ends if len(ends) == 2 else reading.elements(*ends)))
    return [reading.form(value), Ranges(list(zip(numbers[::2], numbers[1::2], strict=True)))]


_CALLS: dict[str, tuple[str, int, Callable[..., list[Any]]]] = {
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
constants up in doubles."""


def fraction(number: float) -> Fraction:
    """What a double stands for: 1/3 where it rounds that, else its decimal digits, without those that sums of doubles,
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
