"""A FlatZinc file with floats -> one with integers only, which has the same solutions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, gcd, inf, lcm

from moccasin_mzn.solvers.cpsat.builder import LIMIT
from moccasin_mzn.solvers.cpsat.floats.definitions import ELSEWHERE, Definitions, fits_direction, refusal, step_of
from moccasin_mzn.solvers.cpsat.floats.items import ONE, Call, Form, Ranges, Row, at_most, fraction, nearest_step
from moccasin_mzn.solvers.cpsat.halves import find_halves
from moccasin_mzn.solvers.flatzinc.syntax import Constraint, Expression, FlatZinc, IntSet, UnsupportedError, Variable

FINEST = 2**50
"""Into how many steps at most an objective is divided whose own fractions are too small: as fine as sums of doubles."""
TOO_FINE = f"too many digits for integers of 64 bits; {ELSEWHERE}"
ASSUMED = 2**40
"""Magnitude of a variable without bounds."""


@dataclass(slots=True)
class Integral:
    """A `file` without floats. `forms` says what the floats of the `source` are, over its integers.

    The objective counts steps of 1 / `unit`. If some float is `continuous`, the solutions are not all of the source's.
    """

    source: FlatZinc
    file: FlatZinc
    forms: dict[str, Form] = field(default_factory=dict)
    unit: int = 1
    continuous: bool = False

    def form(self, element: Expression) -> Form:
        """An element of a float array."""
        content = self.source.parameters.get(element, element) if type(element) is str else element
        return self.forms[content] if type(content) is str else Form({}, Fraction(content))

    def reported(self, objective: int) -> Fraction:
        """What an integer objective is in the source."""
        return Fraction(objective, self.unit)


def without_floats(file: FlatZinc) -> Integral:
    """Raises `FlatZincError` with the place of what has no exact form in integers."""
    definitions = Definitions(file)
    definitions.run()
    return _Writer(file, definitions).run()


class _Writer:
    def __init__(self, file: FlatZinc, definitions: Definitions) -> None:
        self.file = file
        self.known = definitions
        self.units = definitions.units
        self.variables = {name: each for name, each in file.variables.items() if not each.is_float}
        self.positions = dict(file.positions)
        self.constraints = [item for item in file.constraints if "float" not in item.name]
        self.reified: list[tuple[Row | Call, Constraint]] = []

    def run(self) -> Integral:
        known, solve = self.known, self.file.solve
        self._choose_step()
        for base, (low, high) in known.bounds.items():
            self._declare(base, low, high)
        for item in known.items:
            with _placed(self.file, item.item):
                self._write(item)
        unit = 1
        form = self._objective_form()
        if form is not None:
            unit, objective = self._objective(form)
            solve = replace(solve, objective=objective)
        arrays = {name: array for name, array in self.file.arrays.items() if not array.is_float}
        file = replace(
            self.file,
            variables=self.variables,
            arrays=arrays,
            constraints=self.constraints,
            solve=solve,
            positions=self.positions,
        )
        self._check_directions(file)
        forms = {name: self._over_steps(form) for name, form in known.forms.items()}
        return Integral(self.file, file, forms, unit, bool(known.continuous))

    def _choose_step(self) -> None:
        """The unit of all continuous variables."""
        known, unit = self.known, 1
        for item in known.items:
            with _placed(self.file, item.item):
                unit = lcm(unit, step_of(item, known.continuous, self.units))
        ends = (end for base in known.continuous for end in known.bounds[base] if end not in (-inf, inf))
        unit = lcm(unit, *(Fraction(end).denominator for end in ends))
        self.units.update(dict.fromkeys(known.continuous, unit))

    def _name(self, base: str) -> str:
        """Name the integer variable behind a base; one that counts steps has a name that no file can have."""
        return f"{base} steps" if base in self.units else base

    def _over_steps(self, form: Form) -> Form:
        per_step = form.per_step(self.units)
        return Form({self._name(base): factor for base, factor in per_step.factors.items()}, form.constant)

    def _declare(self, base: str, low: Fraction | float, high: Fraction | float) -> None:
        """An integer variable that counts the steps of a float between the bounds."""
        name, unit = self._name(base), Fraction(self.units[base])
        position = self.positions[name] = self.file.positions.get(base, self.file.solve.position)
        least = None if low == -inf else -at_most(Fraction(-low) * unit, unit)
        greatest = None if high == inf else at_most(Fraction(high) * unit, unit)
        if max(abs(least or 0), abs(greatest or 0)) > LIMIT:
            raise UnsupportedError(f"{self.file.where(position)}: {base}: {TOO_FINE}")
        domain = None if least is None or greatest is None else IntSet.of_range(least, greatest)
        self.variables[name] = Variable(name, False, domain, False, None)
        if domain is None and least is not None:
            self.constraints.append(Constraint("int_le", [least, name], position))
        if domain is None and greatest is not None:
            self.constraints.append(Constraint("int_le", [name, greatest], position))

    def _write(self, item: Row | Call) -> None:
        position = item.item.position
        if isinstance(item, Row):
            name, arguments = self._row(item)
        else:
            name, arguments = item.name, self._arguments(item)
        constraint = Constraint(name, arguments, position)
        self.constraints.append(constraint)
        forms = [item.form] if isinstance(item, Row) else item.forms()
        if item.condition == "_reif" and not all(self.known.continuous.isdisjoint(form.factors) for form in forms):
            self.reified.append((item, constraint))

    def _arguments(self, call: Call) -> list[Expression]:
        """All operands in steps of the same size, but for products, whose units multiply."""
        units = [form.per_step(self.units).denominator() for form in call.forms()]
        each = [lcm(*units)] * len(call.arguments)
        if call.name == "int_times":
            each = [units[0], units[1], units[0] * units[1]]
        pairs = zip(call.arguments, each, strict=True)
        return [self._argument(argument, unit, call.item.position) for argument, unit in pairs]

    def _argument(self, argument: object, unit: int, position: int) -> Expression:
        if isinstance(argument, Form):
            return self._counted(argument, unit, position)
        if isinstance(argument, Ranges):
            step = Fraction(unit)
            ends = [(-at_most(-low * unit, step), at_most(high * unit, step)) for low, high in argument.ranges]
            return IntSet.of_ranges(ends)
        if type(argument) is list:
            return [self._argument(each, unit, position) for each in argument]
        return argument

    def _counted(self, form: Form, unit: int, position: int) -> Expression:
        """An integer operand that counts steps of a form."""
        steps = self._over_steps(form).times(Fraction(unit))
        if not steps.factors:
            return int(steps.constant)
        if len(steps.factors) == 1 and not steps.constant and 1 in steps.factors.values():
            return next(iter(steps.factors))
        name = f"operand {len(self.variables)}"
        self.units[name], (low, high) = unit, self.known.interval(form)
        self._declare(name, low, high)
        total = Form.total([(ONE, form), (-ONE, Form({name: ONE}))])
        self._write(Row(Constraint("", [], position), "eq", total, "", []))
        return f"{name} steps"

    def _row(self, row: Row) -> tuple[str, list[Expression]]:
        """A linear constraint on integers."""
        steps = self._over_steps(row.form)
        scale = lcm(*(factor.denominator for factor in steps.factors.values()))
        unit = Fraction(scale, gcd(*(int(factor * scale) for factor in steps.factors.values())) or 1)
        factors = [int(factor * unit) for factor in steps.factors.values()]
        side = -steps.constant * unit
        if row.relation in ("eq", "ne"):
            number = nearest_step(side, unit)
            if number is None:  # what nothing equals
                steps, factors, number = Form({}), [], 1
        else:
            number = at_most(side, unit) if row.relation == "le" else -at_most(-side, unit) - 1
        if sum(map(abs, factors)) > LIMIT or abs(number) > LIMIT:
            raise UnsupportedError(f"{row.item.name}: {TOO_FINE}")
        relation = "le" if row.relation == "lt" else row.relation
        return f"int_lin_{relation}{row.condition}", [factors, list(steps.factors), number, *row.bools]

    def _objective_form(self) -> Form | None:
        """The objective, if it is a float variable or constant."""
        objective = self.file.solve.objective
        if type(objective) is str and objective in self.known.forms:
            return self.known.forms[objective]
        constant = self.file.parameters.get(objective) if type(objective) is str else objective
        return Form({}, fraction(constant)) if type(constant) is float else None

    def _objective(self, form: Form) -> tuple[int, Expression]:
        """The unit of the objective, and the integer that counts its steps.

        Where its own fractions are too small for that, their multiples are rounded, as sums of doubles are.
        """
        ends = [self.known.interval(Form({base: factor})) for base, factor in form.factors.items()]
        width = min(sum(max(-low, high) for low, high in ends) + abs(form.constant) + 1, ASSUMED)
        unit = form.per_step(self.units).denominator()
        if unit * width > LIMIT // 4:
            unit = FINEST // ceil(width)
            factors = {
                at: Fraction(round(each * unit / self.units.get(at, 1)), unit) for at, each in form.factors.items()
            }
            factors = {at: each * self.units.get(at, 1) for at, each in factors.items() if each}
            form = Form(factors, Fraction(round(form.constant * unit), unit))
        return unit, self._counted(form, unit, self.file.solve.position)

    def _check_directions(self, file: FlatZinc) -> None:
        """Raises if a reified comparison of continuous variables is asked for in the direction that is strict."""
        halves = find_halves(file, deep=True) if self.reified else {}
        for item, constraint in self.reified:
            if not fits_direction(item, halves.get(id(constraint))):
                with _placed(self.file, item.item):
                    raise refusal(item)


@contextmanager
def _placed(file: FlatZinc, item: Constraint) -> Iterator[None]:
    try:
        yield
    except UnsupportedError as error:
        raise type(error)(f"{file.where(item.position)}: {error}") from None
