"""FlatZinc items -> CP-SAT model."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import constraints  # noqa: F401  (registers the handlers)
from .aliases import Aliases
from .builder import Builder, ModelError, Term, as_term, constant
from .registry import HANDLERS
from .symbols import Symbols
from .syntax import FlatZinc, UnsupportedError, Variable

UNBOUNDED = 2**40
"""Magnitude at which the domain of a `var int` without any bound is cut."""


@dataclass(slots=True)
class Problem:
    """A translated file: the model, the meaning of its names, and what to optimise.

    `objective` is None for satisfaction. `cut` maps the CP-SAT variables whose domain was cut at `UNBOUNDED` to their
    names.
    """

    file: FlatZinc
    builder: Builder
    symbols: Symbols
    objective: Term | None = None
    maximize: bool = False
    cut: dict[int, str] = field(default_factory=dict)

    def objective_is_free(self) -> bool:
        """Does no constraint of the file mention the objective, so that no bound but that of its type holds it back?"""
        name = self.file.solve.objective

        def mentions(value: object) -> bool:
            if isinstance(value, list):
                return any(map(mentions, value))
            array = self.file.arrays.get(value) if isinstance(value, str) else None
            return value == name or (array is not None and mentions(array.elements))

        return isinstance(name, str) and not any(mentions(item.arguments) for item in self.file.constraints)


def translate(file: FlatZinc, *, unique: bool = False) -> Problem:
    """Build the CP-SAT model of a file; `unique` as for `Builder`.

    Raises `UnsupportedError` for an unknown constraint and `ModelError` for one that CP-SAT cannot represent.
    """
    problem = Problem(file, Builder(unique=unique), Symbols(file))
    aliases = Aliases(file)
    for variable in file.variables.values():
        if variable.is_bool:
            _declare_bool(problem, aliases, variable)
    for variable in file.variables.values():
        if not variable.is_bool:
            _declare_int(problem, aliases, variable)
    for variable in file.variables.values():
        if variable.value is not None:
            _assign(problem, variable)
    _post_constraints(problem, aliases)
    _set_objective(problem)
    return problem


def _declare_bool(problem: Problem, aliases: Aliases, variable: Variable) -> None:
    literals = problem.symbols.literals
    root, negated = aliases.root(variable.name)
    if root not in literals:
        literals[root] = problem.builder.boolean()
    literals[variable.name] = ~literals[root] if negated else literals[root]


def _declare_int(problem: Problem, aliases: Aliases, variable: Variable) -> None:
    builder, symbols = problem.builder, problem.symbols
    twin = aliases.booleans.get(variable.name)
    if twin is not None:
        term = symbols.integers[variable.name] = as_term(symbols.literals[twin])
        if variable.domain is not None and not (0 in variable.domain and 1 in variable.domain):
            builder.within(term, variable.domain)
    elif variable.domain is None:
        term = builder.integer(-UNBOUNDED, UNBOUNDED)
        problem.cut[term.variable] = variable.name
    elif variable.domain.ranges:
        term = builder.integer_in(variable.domain.flat())
    else:
        term = constant(0)
        builder.false()
    symbols.integers[variable.name] = term


def _assign(problem: Problem, variable: Variable) -> None:
    """The right-hand side of a scalar variable."""
    builder, symbols = problem.builder, problem.symbols
    if variable.is_bool:
        left, right = symbols.literal(variable.name), symbols.literal(variable.value)
        if left != right:
            builder.equal(as_term(left), as_term(right))
    else:
        builder.equal(symbols.term(variable.name), symbols.term(variable.value))


def _post_constraints(problem: Problem, aliases: Aliases) -> None:
    builder, file, converters = problem.builder, problem.file, problem.symbols.converters
    absorbed = aliases.absorbed
    for item in file.constraints:
        if id(item) in absorbed:
            continue
        handler = HANDLERS.get(item.name)
        if handler is None:
            raise UnsupportedError(f"unsupported constraint {item.name}")
        if len(item.arguments) != len(handler.kinds):
            raise ModelError(f"{file.where(item.position)}: {item.name} takes {len(handler.kinds)} arguments")
        try:
            operands = [converters[kind](value) for kind, value in zip(handler.kinds, item.arguments, strict=True)]
            handler.post(builder, *operands)
        except (ModelError, ValueError) as error:  # ValueError: two arrays differ in length
            raise ModelError(f"{file.where(item.position)}: {item.name}: {error}") from None


def _set_objective(problem: Problem) -> None:
    solve, builder = problem.file.solve, problem.builder
    if solve.goal == "satisfy":
        return
    problem.objective = problem.symbols.term(solve.objective)
    problem.maximize = solve.goal == "maximize"
    variable, coefficient, offset = problem.objective
    sign = -1 if problem.maximize else 1
    proto = builder.model.proto.objective
    if coefficient:
        proto.vars.append(variable)
        proto.coeffs.append(sign * coefficient)
    proto.scaling_factor = float(sign)
    proto.offset = float(sign * offset)
