"""A FlatZinc file with floats -> one with integers only, which has the same solutions."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, gcd, inf, lcm

from moccasin_mzn.solvers.cpsat.builder import LIMIT, ModelError
from moccasin_mzn.solvers.cpsat.floats.items import (
    ONE,
    Bounds,
    FloatBounds,
    FloatCall,
    FloatRow,
    Form,
    Ranges,
    Reading,
    at_most,
    declared_bounds,
    fraction,
    nearest_step,
)
from moccasin_mzn.solvers.cpsat.registry import IF_FALSE, IF_TRUE, Half, find_halves
from moccasin_mzn.solvers.flatzinc.syntax import (
    Constraint,
    ContinuousError,
    Expression,
    FlatZinc,
    FlatZincError,
    IntSet,
    UnsupportedError,
    Variable,
)

# --- Which float follows from which: every float of a file as a form ------------------------------------------


ZERO = Fraction(0)
UNFIT = (ValueError, LookupError, ArithmeticError, TypeError)
"""What Python raises where arrays differ in length, arguments are missing or numbers are infinite."""
TIGHTER = Fraction(1, 10**9)
"""How much, relative to it or to 1, a declared bound has to cut off: MiniZinc derives bounds in floating point."""


class Definitions:
    """Takes every constraint on floats of a file, in an order in which all but one of its floats have a form.

    Attributes:
        forms: of the floats. Bases are integer variables, or floats that `units` or `continuous` lists.
        units: how many steps a base has in 1.
        continuous: the bases whose units are not known yet.
        bounds: of the bases that are floats.
        items: the constraints, and those that give bases their values.
    """

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.forms: dict[str, Form] = {}
        self.units: dict[str, int] = {}
        self.continuous: set[str] = set()
        self.bounds: dict[str, Bounds] = {}
        self.items: list[FloatRow | FloatCall] = []
        self._reading = Reading(file, self.forms)
        self._float_bounds: FloatBounds | None = None
        self._floats = [variable for variable in file.variables.values() if variable.is_float]

    def run(self) -> None:
        """Raises `FlatZincError` with the place of what cannot be taken."""
        assigned = ((each.name, each.value, self.file.positions[each.name]) for each in self._floats)
        queue = deque(Constraint("float_eq", [name, value], at) for name, value, at in assigned if value is not None)
        queue.extend(item for item in self.file.constraints if "float" in item.name)
        waiting: dict[str, list[Constraint]] = defaultdict(list)
        taken: set[int] = set()
        loose = deque(sorted((each.name for each in self._floats), key=self._is_defined))
        while queue or loose:
            if not queue:
                name = loose.popleft()
                if name not in self.forms:
                    self._let_loose(name)
                    queue.extend(waiting.pop(name, ()))
                continue
            item = queue.popleft()
            if id(item) in taken:
                continue
            try:
                names = (name for argument in item.arguments for name in self._reading.floats(argument))
                missing = list(dict.fromkeys(name for name in names if name not in self.forms))
                if not missing:
                    self._post(item)
                elif len(missing) == 1 and self._define(missing[0], item):
                    queue.extend(waiting.pop(missing[0], ()))
                else:
                    for name in missing[:2]:
                        waiting[name].append(item)
                    continue
                taken.add(id(item))
            except (FlatZincError, *UNFIT) as error:
                raise self._placed(item, error) from None

        for name, array in self.file.arrays.items():
            if array.is_float:
                try:
                    self._reading.many(name)
                except ModelError as error:
                    raise ModelError(f"{self.file.where(self.file.positions[name])}: {error}") from None

    def interval(self, form: Form) -> Bounds:
        """The least and the greatest value of a form."""
        low: Fraction | float = form.constant
        high: Fraction | float = form.constant
        for base, factor in form.factors.items():
            ends = [factor * end for end in self._base_bounds(base)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def new_base(self, name: str, unit: int, bounds: Bounds) -> None:
        """Let a float count steps; `bounds` are those of what it follows from."""
        self.units[name] = unit
        self.forms[name] = Form({name: ONE})
        low, high = self._tighter(name, bounds)
        self.bounds[name] = bounds[0] if low is None else low, bounds[1] if high is None else high

    def _is_defined(self, name: str) -> bool:
        """Does MiniZinc state that the variable follows from others?"""
        text, start = self.file.text, self.file.positions[name]
        return "is_defined_var" in text[start : text.find(";", start)]

    def _placed(self, item: Constraint, error: Exception) -> FlatZincError:
        place = self.file.where(item.position)
        if isinstance(error, UnsupportedError):
            return type(error)(f"{place}: {error}")
        reason = error if isinstance(error, FlatZincError) else f"unfit arguments ({error})"
        return ModelError(f"{place}: {item.name}: {reason}")

    def _let_loose(self, name: str) -> None:
        low, high = self._declared(name)
        if -inf in (low, high) or inf in (low, high):
            low, high = self._implied(name)
        if -inf in (low, high) or inf in (low, high):
            place = self.file.where(self.file.positions[name])
            raise ContinuousError(f"{place}: {name} is a float without bounds that follows from nothing; {ELSEWHERE}")
        self.continuous.add(name)
        self.forms[name] = Form({name: ONE})
        self.bounds[name] = low, high

    def _implied(self, name: str) -> Bounds:
        """Bounds of a float that has none by its type, or not on both sides."""
        if self._float_bounds is None:
            self._float_bounds = FloatBounds(self.file)
        return self._float_bounds.of(name)

    def _post(self, item: Constraint) -> None:
        taken = self._reading.take(item)
        if isinstance(taken, FloatCall) and taken.name == "int_times":
            product, result = f"product {len(self.items)}", taken.arguments[2]
            taken.arguments[2] = Form({product: ONE})
            self._follow(product, taken, taken.arguments[:2])
            form = Form.total([(ONE, self.forms.pop(product)), (-ONE, result)])
            self.items.append(FloatRow(item, "eq", form, "", []))
        self.items.append(taken)

    def _define(self, name: str, item: Constraint) -> bool:
        """Give the only float of a constraint that has no form the one that follows; False if none does."""
        self.forms[name] = Form({name: ONE})
        taken = self._reading.take(item)
        del self.forms[name]
        if isinstance(taken, FloatRow):
            return self._solve(name, taken)
        if taken.condition or taken.arguments[taken.target] != Form({name: ONE}):
            return False
        if taken.name == "set_in":
            return self._choose(name, taken)
        operands = [form for form in taken.forms() if name not in form.factors]
        if len(operands) < sum(1 for _ in taken.forms()) - 1:
            return False  # it stands on both sides
        self._follow(name, taken, operands)
        self.items.append(taken)
        return True

    def _solve(self, name: str, row: FloatRow) -> bool:
        """Solve an equation for a float."""
        factor = row.form.factors.get(name)
        if row.relation != "eq" or row.condition or not factor:
            return False
        rest = {base: value for base, value in row.form.factors.items() if base != name}
        form = Form(rest, row.form.constant).times(-1 / factor)
        self.forms[name] = form
        wide = len(rest) > 1 and name != self.file.solve.objective and self.continuous.isdisjoint(rest)
        low, high = self.interval(form)
        if wide:
            self.new_base(name, form.per_step(self.units).denominator(), (low, high))
            self.items.append(row)
            return True
        least, greatest = self._tighter(name, (low, high))
        if least is not None:
            self.items.append(FloatRow(row.item, "le", Form.total([(-ONE, form)], least), "", []))
        if greatest is not None:
            self.items.append(FloatRow(row.item, "le", Form.total([(ONE, form)], -greatest), "", []))
        return True

    def _choose(self, name: str, call: FloatCall) -> bool:
        """Let a float with a finite domain count steps."""
        ends = call.arguments[1].ends()
        if not ends or any(low != high for low, high in call.arguments[1].ranges):
            return False
        self.new_base(name, lcm(*(end.denominator for end in ends)), (min(ends), max(ends)))
        self.items.append(call)
        return True

    def _follow(self, name: str, call: FloatCall, operands: list[Form]) -> None:
        """Let a float count steps that suit the result of a call."""
        intervals = list(map(self.interval, operands))
        steps = [form.per_step(self.units).denominator() for form in operands]
        if any(base in self.continuous for form in operands for base in form.factors):
            if call.name == "int_times":  # nothing for highs or scip either
                raise UnsupportedError(f"unsupported constraint {call.item.name} of continuous variables")
            if call.name == "int_abs":
                raise refusal(call)
            self.new_base(name, 1, (min(low for low, _ in intervals), max(high for _, high in intervals)))
            self.continuous.add(name)
            del self.units[name]
        elif call.name == "int_times":
            corners = [one * other if one and other else ZERO for one in intervals[0] for other in intervals[1]]
            self.new_base(name, steps[0] * steps[1], (min(corners), max(corners)))
        else:
            low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
            largest = max(-low, high)
            self.new_base(name, lcm(*steps), (0, largest) if call.name == "int_abs" else (low, high))

    def _base_bounds(self, base: str) -> Bounds:
        if base in self.bounds:
            return self.bounds[base]
        return declared_bounds(self.file.variables[base])

    def _tighter(self, name: str, bounds: Bounds) -> tuple[Fraction | None, Fraction | None]:
        """The declared bounds as far as they cut off values within `bounds`."""
        low, high = self._declared(name)
        return (
            Fraction(low) if bounds[0] < low - TIGHTER * max(1, low, -low) else None,
            Fraction(high) if bounds[1] > high + TIGHTER * max(1, high, -high) else None,
        )

    def _declared(self, name: str) -> Bounds:
        variable = self.file.variables.get(name)
        return (-inf, inf) if variable is None else declared_bounds(variable)


# --- Where steps of a fraction of 1 stand for all values of continuous variables ------------------------------

# With all integers and truths fixed, constraints that compare continuous variables with each other, `f - g <= c`, and
# with constants have a totally unimodular matrix: if all sides are multiples of a step, so are the vertices, and with
# them an optimum of every linear objective, and a solution if there is one. Maxima, minima and elements are choices
# among such comparisons. Strict comparisons are none: they leave out vertices.


ELSEWHERE = "solve with --solver highs or --solver scip"
CHOICES = ("int_max", "int_min", "array_int_maximum", "array_int_minimum", "array_var_int_element", "set_in")
_CLOSED = {"le": IF_TRUE, "eq": IF_TRUE, "set_in": IF_TRUE, "lt": IF_FALSE, "ne": IF_FALSE}
"""True where a comparison, or its negation, can be expressed without `<`."""


def refusal(item: FloatRow | FloatCall) -> ContinuousError:
    """For an item that restricts a continuous variable as steps cannot."""
    return ContinuousError(f"{item.item.name} of a continuous variable is not supported; {ELSEWHERE}")


def step_of(item: FloatRow | FloatCall, continuous: Set[str], units: Mapping[str, int]) -> int:
    """The number of steps in 1 that all sides of a constraint on continuous variables are multiples of; 1 for other
    constraints. Raises `UnsupportedError` for what is no comparison."""
    if isinstance(item, FloatRow):
        weights = [factor for base, factor in item.form.factors.items() if base in continuous]
        if not weights:
            return 1
        closed = _CLOSED[item.relation] == IF_TRUE if item.condition != "_reif" else True
        if len(weights) > 2 or (len(weights) == 2 and weights[0] != -weights[1]) or not closed:
            raise refusal(item)
        return _sides(item.form.times(1 / weights[0]), continuous, units)
    if not any(base in continuous for form in item.forms() for base in form.factors):
        return 1
    stem = item.name.removesuffix(item.condition)
    whole = all(form.factors[base] == 1 for form in item.forms() for base in form.factors if base in continuous)
    single = all(len(form.factors) == 1 for form in item.forms() if not continuous.isdisjoint(form.factors))
    if stem not in CHOICES or not whole or not single or (item.condition and stem != "set_in"):
        raise refusal(item)
    ends = (end for each in item.arguments if isinstance(each, Ranges) for end in each.ends())
    sides = [_sides(form, continuous, units) for form in item.forms()]
    return lcm(*sides, *(end.denominator for end in ends))


def _sides(form: Form, continuous: Set[str], units: Mapping[str, int]) -> int:
    rest = {base: factor for base, factor in form.factors.items() if base not in continuous}
    return Form(rest, form.constant).per_step(units).denominator()


def fits_direction(item: FloatRow | FloatCall, half: Half | None) -> bool:
    """Is a reified comparison of continuous variables asked for in the one direction that has no `<`?"""
    relation = item.relation if isinstance(item, FloatRow) else "set_in"
    return half is not None and half.direction == _CLOSED[relation]


# --- The file with integers only ------------------------------------------------------------------------------


FINEST = 2**50
"""Into how many steps at most an objective is divided whose own fractions are too small: as fine as sums of floats."""
TOO_FINE = f"too many digits for integers of 64 bits; {ELSEWHERE}"
ASSUMED = 2**40
"""Magnitude of a variable without bounds."""


@dataclass(slots=True)
class Integral:
    """A `file` without floats. `forms` has what the floats of the `source` are, over its integers.

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
        self.reified: list[tuple[FloatRow | FloatCall, Constraint]] = []

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

    def _write(self, item: FloatRow | FloatCall) -> None:
        position = item.item.position
        if isinstance(item, FloatRow):
            name, arguments = self._row(item)
        else:
            name, arguments = item.name, self._arguments(item)
        constraint = Constraint(name, arguments, position)
        self.constraints.append(constraint)
        forms = [item.form] if isinstance(item, FloatRow) else item.forms()
        if item.condition == "_reif" and not all(self.known.continuous.isdisjoint(form.factors) for form in forms):
            self.reified.append((item, constraint))

    def _arguments(self, call: FloatCall) -> list[Expression]:
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
        self._write(FloatRow(Constraint("", [], position), "eq", total, "", []))
        return f"{name} steps"

    def _row(self, row: FloatRow) -> tuple[str, list[Expression]]:
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

        Where its own fractions are too small for that, their multiples are rounded, as sums of floats are.
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
