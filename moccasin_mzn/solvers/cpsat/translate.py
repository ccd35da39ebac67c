"""FlatZinc items -> CP-SAT model."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING

from moccasin_mzn.solvers.cpsat.bounds import implied_bounds
from moccasin_mzn.solvers.cpsat.builder import (
    FALSE,
    LIMIT,
    TRUE,
    Builder,
    CpModelProto,
    ModelError,
    Term,
    as_term,
    complaint,
    constant,
)
from moccasin_mzn.solvers.cpsat.registry import Aliases, Half, Operand, find_halves
from moccasin_mzn.solvers.cpsat.registry import handler as handler_of
from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZinc, IntSet, UnsupportedError, Variable, describe

if TYPE_CHECKING:
    from fractions import Fraction

    from moccasin_mzn.solvers.cpsat.floats.definitions import Integral


UNFIT = (ValueError, LookupError, ArithmeticError, TypeError)
"""What Python raises where arrays differ in length or numbers exceed the 64 bits of a protocol buffer."""
UNBOUNDED = 2**40
"""Magnitude at which a domain is cut that neither its type nor a constraint bounds."""


@dataclass(slots=True)
class TranslatedModel:
    """A translated file: the model, the meaning of its names, and what to optimise.

    `objective` is None for satisfaction. `cut` holds the variables whose domain was cut by the index of the CP-SAT
    variable. `origins` has from which CP-SAT constraint on which place of the text they come from. `halves` are
    the reified constraints, by id, with one direction posted. `integral` describes the floats, if there are
    any.
    """

    file: FlatZinc
    builder: Builder
    symbols: Symbols
    objective: Term | None = None
    maximize: bool = False
    cut: dict[int, Cut] = field(default_factory=dict)
    origins: list[tuple[int, int]] = field(default_factory=list)
    halves: dict[int, Half] = field(default_factory=dict)
    integral: Integral | None = None

    def reported(self, objective: int) -> int | Fraction:
        """What an integer objective is in the file: an integer or a fraction."""
        return self.integral.reported(objective) if self.integral else objective

    def objective_scale(self) -> tuple[int, int]:
        """(sign, offset) such that the objective is sign * what CP-SAT minimizes in integers + offset."""
        assert self.objective is not None
        return (-1 if self.maximize else 1), self.objective.offset

    def objective_is_free(self) -> bool:
        """Does nothing in the file mention the objective, so that no bound but that of its type holds it back?"""
        return self.file.solve.objective not in names_in_constraints(self.file)

    def place_of_refusal(self) -> str:
        """`file:line:column` of the first item with which CP-SAT finds the model invalid."""
        file, proto = self.file, self.builder.model
        posted = list(proto.constraints)

        def invalid(count: int) -> bool:
            model = CpModelProto()
            model.variables.extend(proto.variables)
            model.constraints.extend(posted[:count])
            return bool(complaint(model))

        count = bisect_left(range(len(posted) + 1), True, key=invalid)
        origin = bisect_right(self.origins, count - 1, key=itemgetter(0)) - 1
        return file.where(file.solve.position if count > len(posted) else self.origins[max(origin, 0)][1])


def translate(file: FlatZinc, *, unique: bool = False, unbounded: int = UNBOUNDED) -> TranslatedModel:
    """Build the CP-SAT model of a file; `unique` as for `Builder`. Domains are cut at the magnitude `unbounded`.

    Raises `UnsupportedError` for an unknown constraint and `ModelError` for one that CP-SAT cannot represent.
    """
    integral = None
    if _has_floats(file):
        from moccasin_mzn.solvers.cpsat.floats.definitions import without_floats  # which takes time to load

        integral = without_floats(file)
        file, unique = integral.file, unique and not integral.continuous
    problem = TranslatedModel(file, Builder(unique=unique), Symbols(file), integral=integral)
    problem.halves = {} if unique else find_halves(file, deep=bool(integral and integral.continuous))
    aliases, bounds = Aliases(file, problem.halves), implied_bounds(file)
    for variable in file.variables.values():
        if variable.is_bool:
            _declare_bool(problem, aliases, variable)
    try:
        for variable in file.variables.values():
            if not variable.is_bool:
                _declare_int(problem, aliases, variable, (bounds or {}).get(variable.name, (-inf, inf)), unbounded)
    except ModelError as error:
        raise ModelError(f"{file.where(file.positions[variable.name])}: {error}") from None
    for variable in file.variables.values():
        if variable.value is not None:
            with _item(problem, file.positions[variable.name]):
                _assign(problem, variable)
    for array in file.arrays.values():
        with _item(problem, file.positions[array.name]):
            problem.symbols.converters["Bools" if array.is_bool else "Ints"](array.name)
    _post_constraints(problem, aliases)
    with _item(problem, file.solve.position):
        _set_objective(problem)
    if bounds is None:  # so that there is no solution, within the cuts or beyond
        problem.builder.false()
        problem.cut = {}
    if problem.cut:
        matter = {*names_in_constraints(file), file.solve.objective}
        problem.cut = {index: cut for index, cut in problem.cut.items() if cut.name in matter}
    return problem


def _has_floats(file: FlatZinc) -> bool:
    objective = file.solve.objective
    constant = file.parameters.get(objective) if type(objective) is str else objective
    return type(constant) is float or any(variable.is_float for variable in file.variables.values())


@contextmanager
def _item(problem: TranslatedModel, position: int) -> Iterator[None]:
    """Let an item of the file answer for what goes wrong, and for the constraints that are added."""
    problem.origins.append((problem.builder.constraint_count(), position))
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{problem.file.where(position)}: {error}") from None


def _declare_bool(problem: TranslatedModel, aliases: Aliases, variable: Variable) -> None:
    literals = problem.symbols.literals
    root, negated = aliases.root(variable.name)
    if root not in literals:
        literals[root] = problem.builder.boolean()
    literals[variable.name] = ~literals[root] if negated else literals[root]


def _declare_int(
    problem: TranslatedModel, aliases: Aliases, variable: Variable, bounds: tuple[float, float], unbounded: int
) -> None:
    """`bounds` are what the constraints imply where the type has no bounds."""
    builder, symbols, domain = problem.builder, problem.symbols, variable.domain
    assert domain is None or isinstance(domain, IntSet)
    counterpart = aliases.booleans.get(variable.name)
    if counterpart is not None:
        term = symbols.integers[variable.name] = as_term(symbols.literals[counterpart])
        if domain is not None and not (0 in domain and 1 in domain):
            builder.within(term, domain)
    elif domain is None:
        term = _declare_unbounded(problem, variable.name, *bounds, unbounded)
    elif domain.ranges:
        term = builder.integer_in(domain.flat())
    else:
        term = constant(0)
        builder.false()
    symbols.integers[variable.name] = term


def _declare_unbounded(problem: TranslatedModel, name: str, low: float, high: float, unbounded: int) -> Term:
    below, above = low < -LIMIT, high > LIMIT
    least = int(low) if not below else -unbounded if above else min(-unbounded, int(high) - unbounded)
    greatest = int(high) if not above else max(unbounded, least + unbounded)
    term = problem.builder.integer(max(least, -LIMIT), min(greatest, LIMIT))
    if below or above:
        problem.cut[term.variable] = Cut(name, *problem.builder.bounds(term))
    return term


def _assign(problem: TranslatedModel, variable: Variable) -> None:
    """The right-hand side of a scalar variable."""
    builder, symbols = problem.builder, problem.symbols
    if variable.is_bool:
        left, right = symbols.literal(variable.name), symbols.literal(variable.value)
        if left != right:
            builder.equal(as_term(left), as_term(right))
    else:
        builder.equal(symbols.term(variable.name), symbols.term(variable.value))


def _post_constraints(problem: TranslatedModel, aliases: Aliases) -> None:
    builder, file, converters = problem.builder, problem.file, problem.symbols.converters
    absorbed, origins, halves = aliases.absorbed, problem.origins, problem.halves
    for item in file.constraints:
        if id(item) in absorbed:
            continue
        handler = handler_of(item.name)
        if handler is None:
            raise UnsupportedError(f"{file.where(item.position)}: unsupported constraint {item.name}")
        if len(item.arguments) != len(handler.kinds):
            raise ModelError(f"{file.where(item.position)}: {item.name} takes {len(handler.kinds)} arguments")
        origins.append((builder.constraint_count(), item.position))
        try:
            operands = [converters[kind](value) for kind, value in zip(handler.kinds, item.arguments, strict=True)]
            half = halves.get(id(item))
            (handler.halves[half.direction] if half and handler.halves else handler.post)(builder, *operands)
        except ModelError as error:
            raise ModelError(f"{file.where(item.position)}: {item.name}: {error}") from None
        except UNFIT as error:
            reason = str(error).partition("\n")[0]
            raise ModelError(f"{file.where(item.position)}: {item.name}: unfit arguments ({reason})") from None


def _set_objective(problem: TranslatedModel) -> None:
    solve, builder = problem.file.solve, problem.builder
    if solve.goal == "satisfy":
        return
    objective, symbols = solve.objective, problem.symbols
    is_bool = type(objective) is bool or (type(objective) is str and objective in symbols.literals)
    problem.objective = as_term(symbols.literal(objective)) if is_bool else symbols.term(objective)
    problem.maximize = solve.goal == "maximize"
    variable, coefficient, _ = problem.objective
    sign, offset = problem.objective_scale()
    proto = builder.model.objective
    if coefficient:
        proto.vars.append(variable)
        proto.coeffs.append(sign * coefficient)
    proto.scaling_factor = float(sign)
    proto.offset = float(sign * offset)


# --- What the names of a FlatZinc file stand for in the CP-SAT model ------------------------------------------


class Symbols:
    """Turns FlatZinc expressions into operands; the tables are filled by `translate`.

    `integers` and `literals` hold scalars, both variables and parameters. Every conversion raises `ModelError` if the
    expression is not of the kind asked for.
    """

    def __init__(self, file: FlatZinc) -> None:
        self.file = file
        self.parameters = file.parameters
        self.elements = {name: array.elements for name, array in file.arrays.items()}
        self.elements.update({name: value for name, value in file.parameters.items() if isinstance(value, list)})
        self.integers: dict[str, Term] = {}
        self.literals: dict[str, int] = {}
        for name, value in file.parameters.items():
            if type(value) is bool:
                self.literals[name] = TRUE if value else FALSE
            elif type(value) is int:
                self.integers[name] = constant(value)
        self._arrays: dict[tuple[str, str], Sequence[Operand]] = {}
        single: dict[str, Callable[[Expression], Operand]] = {
            "Int": self.term,
            "Bool": self.literal,
            "Par": self.integer,
            "Set": self.set,
        }
        self.converters = single | {f"{kind}s": partial(self._array, kind) for kind in single}

    def term(self, value: Expression) -> Term:
        """An integer operand."""
        if type(value) is str and value in self.integers:
            return self.integers[value]
        if type(value) is int:
            return Term(0, 0, value)
        raise self._mismatch("an integer", value)

    def literal(self, value: Expression) -> int:
        """A boolean operand."""
        if type(value) is str and value in self.literals:
            return self.literals[value]
        if type(value) is bool:
            return TRUE if value else FALSE
        raise self._mismatch("a bool", value)

    def integer(self, value: Expression) -> int:
        """An integer parameter."""
        if type(value) is int:
            return value
        if type(value) is str and type(self.parameters.get(value)) is int:
            return self.parameters[value]
        raise self._mismatch("an integer constant", value)

    def set(self, value: Expression) -> IntSet:
        """A set parameter."""
        content = self.parameters.get(value) if type(value) is str else value
        if isinstance(content, IntSet):
            return content
        raise self._mismatch("a set constant", value)

    def list(self, value: Expression) -> list[Expression]:
        """The elements of an array, given by name or as a literal."""
        if type(value) is list:
            return value
        if type(value) is str and value in self.elements:
            return self.elements[value]
        raise self._mismatch("an array", value)

    def _array(self, kind: str, value: Expression) -> Sequence[Operand]:
        if type(value) is not str:
            return list(map(self.converters[kind], self.list(value)))
        key = (kind, value)
        if key not in self._arrays:
            self._arrays[key] = list(map(self.converters[kind], self.list(value)))
        return self._arrays[key]

    def _mismatch(self, wanted: str, value: Expression) -> ModelError:
        if type(value) is str and value not in self.file.positions:
            return ModelError(f"{value} is not declared")
        return ModelError(f"{wanted} expected, found {describe(value)}")


# --- Domains that are cut for want of bounds, and what is proven nevertheless ---------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """A variable whose domain was cut to low..high."""

    name: str
    low: int
    high: int


def names_in_constraints(file: FlatZinc) -> set[str]:
    """All names that constraints and right-hand sides mention, themselves or through an array."""
    names: set[str] = set()

    def collect(values: Sequence[Expression]) -> None:
        for value in values:
            if isinstance(value, list):
                collect(value)
            elif isinstance(value, str) and value not in names:
                names.add(value)
                if value in file.arrays:
                    collect(file.arrays[value].elements)

    for item in file.constraints:
        collect(item.arguments)
    for variable in file.variables.values():
        if variable.value is not None:
            collect([variable.name, variable.value])
    return names


def are_harmless(cuts: Mapping[int, Cut], file: FlatZinc, best: int) -> bool:
    """Is an optimum within cut domains one of the file? It is if, by what the constraints imply, no solution is better,
    or none that is as good has values beyond a cut."""
    objective, minimizes = file.solve.objective, file.solve.goal == "minimize"
    if not isinstance(objective, str) or objective not in file.variables:
        return True  # a constant, of which every solution is an optimum
    better = {objective: (-inf, best - 1) if minimizes else (best + 1, inf)}
    if implied_bounds(file, better) is None:
        return True
    bounds = implied_bounds(file, {objective: (-inf, best) if minimizes else (best, inf)})
    return bounds is not None and all(
        cut.low <= bounds[cut.name][0] and bounds[cut.name][1] <= cut.high for cut in cuts.values()
    )
