"""A CP-SAT model under construction, addressed by plain integers.

A *literal* is the index of a 0-1 variable or, for its negation, -1 minus that index; `~literal` negates. A `Term` is
an integer operand: coefficient * variable + offset. Constants are terms and literals like all else, so that constraints
need no special cases for them. The model is written straight into its protocol buffer, which costs a fifth of the
`LinearExpr` operators.

`when` is a list of enforcement literals everywhere: the constraint holds if all of them are true.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from operator import mul
from typing import Any, NamedTuple, TypeAlias

from ortools.sat.python import cp_model_helper as helper

from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, FlatZincError, IntSet

# --- CP-SAT by its protocol buffers alone ---------------------------------------------------------------------


Proto: TypeAlias = Any
"""A message of CP-SAT's protocol buffers: a model, a constraint, parameters, a response; its class has no types."""
CpModelProto = helper.CpModelProto
CpSolverResponse = helper.CpSolverResponse
SolutionCallback = helper.SolutionCallback
Status = helper.CpSolverStatus
Branching = helper.SatParameters.SearchBranching
VariableChoice = helper.DecisionStrategyProto.VariableSelectionStrategy
ValueChoice = helper.DecisionStrategyProto.DomainReductionStrategy


def complaint(model: object) -> str:
    """Why CP-SAT refuses a model; empty if it does not."""
    return helper.CpSatHelper.validate_model(model)


class Solver:
    """Solves models, one after the other.

    Attributes:
        parameters: a `SatParameters`.
        response: of the last model, empty before.
        on_log, on_bound: take the lines of the log, and bounds of the objective.
    """

    def __init__(self) -> None:
        self.parameters: Proto = helper.SatParameters()
        self.parameters.catch_sigint_signal = False  # Ctrl-C is for the process
        self.response: Proto = CpSolverResponse()
        self.on_log: Callable[[str], None] | None = None
        self.on_bound: Callable[[float], None] | None = None
        self._wrapper: helper.SolveWrapper | None = None
        self._lock = threading.Lock()

    def solve(self, model: Proto, callback: SolutionCallback | None = None) -> Status:
        """Search until there is a proof, a limit is reached, or another thread calls `stop`."""
        wrapper = helper.SolveWrapper()
        wrapper.set_parameters(self.parameters)
        if callback is not None:
            wrapper.add_solution_callback(callback)
        if self.on_log is not None:
            wrapper.add_log_callback(self.on_log)
        if self.on_bound is not None:
            wrapper.add_best_bound_callback(self.on_bound)
        with self._lock:
            self._wrapper = wrapper
        self.response = wrapper.solve(model)
        if callback is not None:
            wrapper.clear_solution_callback(callback)
        with self._lock:
            self._wrapper = None
        return self.response.status

    def stop(self) -> None:
        """End the search; without one, nothing happens."""
        with self._lock:
            if self._wrapper is not None:
                self._wrapper.stop_search()


# --- What CP-SAT 9.15 gets wrong where numbers are large, and how to keep out of its way ----------------------


WIDEST = 2**30
"""Coefficients whose magnitudes add up to no more are safe, also where presolve puts two constraints together."""
_LOST = 2.0**-48
"""Share of the magnitude of the objective's terms that is more than the few roundings on a bound's way can take."""


def keep_true(parameters: Proto, widest: int) -> None:
    """Have CP-SAT not look for at-most-one constraints inside of linear ones if magnitudes of coefficients in one
    constraint add up to `widest`, and that is much: it adds them up in 32 bits, and then drops the condition of a
    constraint, and with it solutions (OR-Tools issue 5293).

    And have it not call optimal what is so but for a gap that it takes in floating point.
    """
    parameters.absolute_gap_limit = 0.0
    if widest > WIDEST:
        parameters.presolve_inclusion_work_limit = 0


def certain_bound(value: float, magnitude: int) -> int | None:
    """The lower bound of an objective in integers that CP-SAT reports as a float; None if there is no bound yet.

    Presolve shifts the objective, and the shift is undone in floating point: a bound may come out too high by what
    these lose of the shift, that is of `magnitude`, the sum of the magnitudes of the objective's terms.
    """
    if not math.isfinite(value) or abs(value) >= 2**62:
        return None
    magnitude = max(magnitude, math.ceil(abs(value)))
    return math.ceil(value) - math.floor(magnitude * _LOST) if magnitude >= 1 / _LOST else round(value)


# --- The builder ----------------------------------------------------------------------------------------------


TRUE = 0
FALSE = ~TRUE
LIMIT = 2**62 - 1
"""The greatest magnitude that CP-SAT allows for a value."""
MANY = 1_000_000
"""The largest domain whose values are listed one by one."""


class ModelError(FlatZincError):
    """A constraint that CP-SAT cannot represent, by its numbers or its arguments."""


class Term(NamedTuple):
    """The integer `coefficient * variable + offset`; a constant has coefficient 0."""

    variable: int
    coefficient: int
    offset: int

    def times(self, factor: int) -> Term:
        """The term multiplied by a constant."""
        return Term(self.variable, self.coefficient * factor, self.offset * factor)

    def plus(self, amount: int) -> Term:
        """The term moved by a constant."""
        return Term(self.variable, self.coefficient, self.offset + amount)


def constant(value: int) -> Term:
    """The integer `value` as an operand."""
    return Term(0, 0, value)


def as_term(literal: int) -> Term:
    """The 0-1 integer that equals the literal."""
    if literal in (TRUE, FALSE):
        return constant(int(literal == TRUE))
    return Term(literal, 1, 0) if literal >= 0 else Term(~literal, -1, 1)


HintRule = Callable[[list[int]], int | None]
"""The value to hint, or None, for the hinted values of some operands."""


class Builder:
    """Adds variables and constraints to `model`; keeps the bounds of every variable in `lower` and `upper`."""

    def __init__(self, *, unique: bool = False) -> None:
        """`unique` pins auxiliary variables to one value wherever they are free, for enumeration."""
        self.model = CpModelProto()
        self.unique = unique
        self.lower: list[int] = []
        self.upper: list[int] = []
        self.widest = 0
        """The largest sum of coefficients' magnitudes in a constraint."""
        self.magnitude = 0
        """The largest sum of terms' magnitudes in a linear constraint, whatever values its variables take."""
        self.loses_solutions = False
        """Is there a constraint where CP-SAT 9.15 may not list all solutions, though it finds one if any is left?"""
        self.hint_rules: list[tuple[int, list[Term], HintRule]] = []
        self._variables = self.model.variables
        self._constraints = self.model.constraints
        self._value_literals: dict[tuple[int, int], int] = {}
        self._domains: dict[int, IntSet] = {}
        self._set_literals: dict[tuple[int, IntSet], int] = {}
        self.integer(1, 1)

    # Variables

    def integer(self, low: int, high: int) -> Term:
        """A new integer variable in `low..high`."""
        return self.integer_in([low, high])

    def integer_in(self, domain: Sequence[int]) -> Term:
        """A new integer variable whose domain is given as low, high, low, high, ..."""
        if not -LIMIT <= domain[0] <= domain[-1] <= LIMIT:
            raise ModelError("CP-SAT refuses the model: a domain goes beyond -2^62+1..2^62-1")
        self._variables.add().domain.extend(domain)
        self.lower.append(domain[0])
        self.upper.append(domain[-1])
        return Term(len(self.lower) - 1, 1, 0)

    def boolean(self) -> int:
        """A new literal."""
        return self.integer(0, 1).variable

    def bounds(self, term: Term) -> tuple[int, int]:
        """The least and greatest value of the operand."""
        variable, coefficient, offset = term
        ends = (coefficient * self.lower[variable] + offset, coefficient * self.upper[variable] + offset)
        return ends if coefficient >= 0 else ends[::-1]

    def domain(self, variable: int) -> IntSet:
        """The domain that a variable was created with."""
        if variable not in self._domains:
            ends = list(self._variables[variable].domain)
            self._domains[variable] = IntSet(tuple(zip(ends[::2], ends[1::2], strict=True)))
        return self._domains[variable]

    def size(self, term: Term) -> int:
        """How many values an operand has."""
        return sum(high - low + 1 for low, high in self.domain(term.variable).ranges) if term.coefficient else 1

    def values(self, term: Term) -> list[int]:
        """All values of an operand, ascending; `ModelError` if there are more than `MANY`."""
        variable, coefficient, offset = term
        if not coefficient:
            return [offset]
        if self.size(term) > MANY:
            raise ModelError(f"a variable with more than {MANY} values where each of them needs a literal or a tuple")
        return sorted(coefficient * value + offset for value in self.domain(variable))

    def fixed(self, literal: int) -> bool | None:
        """The value of a literal that is constant by its domain, else None."""
        low, high = self.bounds(as_term(literal))
        return bool(low) if low == high else None

    def suggest(self, variable: int, terms: Iterable[Term], rule: HintRule) -> None:
        """Let a hint for an auxiliary variable follow from those of operands, as soon as all of them have one."""
        self.hint_rules.append((variable, list(terms), rule))

    def sizes(self) -> tuple[int, int]:
        """How many 0-1 variables there are and how many others, constants aside."""
        booleans = sum(low == 0 and high == 1 for low, high in zip(self.lower, self.upper, strict=True))
        constants = sum(low == high for low, high in zip(self.lower, self.upper, strict=True))
        return booleans, len(self.lower) - booleans - constants

    # Constraints

    def new(self, when: Sequence[int] = ()) -> Proto:
        """A new, still empty constraint proto."""
        proto = self._constraints.add()
        if when:
            proto.enforcement_literal.extend(when)
        return proto

    def linear(
        self, coefficients: Sequence[int], terms: Sequence[Term], domain: Sequence[int], when: Sequence[int] = ()
    ) -> None:
        """The sum of coefficient * term lies in the domain low, high, low, high, ..., where `LOWEST` and `HIGHEST`
        stand for no bound."""
        variables, factors, offset = [], [], 0
        for factor, (variable, coefficient, constant_part) in zip(coefficients, terms, strict=True):
            offset += factor * constant_part
            factor *= coefficient
            if factor:
                variables.append(variable)
                factors.append(factor)
        if offset:
            domain = [end if end in (LOWEST, HIGHEST) else end - offset for end in domain]
        if not all(LOWEST <= number <= HIGHEST for number in (*domain, *factors)):
            raise ModelError("the numbers of a linear constraint do not fit in 64 bits")
        self.note_width(factors)
        lower, upper, pairs = self.lower, self.upper, zip(factors, variables, strict=True)
        terms_at_most = sum(abs(factor) * max(-lower[at], upper[at]) for factor, at in pairs)
        self.magnitude = max(self.magnitude, terms_at_most)
        proto = self.new(when).linear
        proto.vars.extend(variables)
        proto.coeffs.extend(factors)
        proto.domain.extend(domain)

    def note_width(self, coefficients: Iterable[int]) -> None:
        """A constraint has these coefficients."""
        self.widest = max(self.widest, sum(map(abs, coefficients)))

    def constraint_count(self) -> int:
        """How many constraints there are: the index that the next one gets."""
        return len(self._constraints)

    def clause(self, literals: Sequence[int], when: Sequence[int] = ()) -> None:
        """One of the literals is true."""
        self.new(when).bool_or.literals.extend(literals)

    def all_true(self, literals: Sequence[int], when: Sequence[int] = ()) -> None:
        """All of the literals are true."""
        self.new(when).bool_and.literals.extend(literals)

    def false(self, when: Sequence[int] = ()) -> None:
        """The model, or the conjunction of `when`, is false."""
        self.clause([], when)

    def equal(self, left: Term, right: Term, when: Sequence[int] = ()) -> None:
        """left = right"""
        self.linear((1, -1), (left, right), (0, 0), when)

    def at_most(self, left: Term, right: Term, when: Sequence[int] = ()) -> None:
        """left <= right"""
        self.linear((1, -1), (left, right), (LOWEST, 0), when)

    def within(self, term: Term, values: IntSet, when: Sequence[int] = ()) -> None:
        """The operand takes one of the values."""
        if values.ranges:
            self.linear((1,), (term,), values.flat(), when)
        else:
            self.false(when)

    def conjunction(self, literals: Sequence[int]) -> int:
        """A literal that equals the conjunction of others."""
        literals = [literal for literal in dict.fromkeys(literals) if literal != TRUE]
        if not literals or FALSE in literals:
            return FALSE if literals else TRUE
        if len(literals) == 1:
            return literals[0]
        both = self.boolean()
        self.all_true(literals, [both])
        self.clause([both, *(~literal for literal in literals)])
        self.suggest(both, map(as_term, literals), min)
        return both

    def sum_of(self, left: Term, right: Term) -> Term:
        """An operand that equals the sum of two others."""
        if not left.coefficient or not right.coefficient:
            return left.plus(right.offset) if left.coefficient else right.plus(left.offset)
        (left_low, left_high), (right_low, right_high) = self.bounds(left), self.bounds(right)
        total = self.integer(left_low + right_low, left_high + right_high)
        self.linear((1, 1, -1), (left, right, total), (0, 0))
        self.suggest(total.variable, (left, right), sum)
        return total

    def equals_value(self, term: Term, value: int) -> int:
        """The literal `term = value`: the same one for every call with the same arguments, constant if the domain
        decides it, and the variable itself if that is 0-1."""
        variable, coefficient, offset = term
        if not coefficient:
            return TRUE if value == offset else FALSE
        value, rest = divmod(value - offset, coefficient)
        if rest or value not in self.domain(variable):
            return FALSE
        low, high = self.lower[variable], self.upper[variable]
        if low == high:
            return TRUE
        if (low, high) == (0, 1):
            return variable if value else ~variable
        key = (variable, value)
        if key not in self._value_literals:
            self._value_literals[key] = self._new_value_literal(variable, value)
        return self._value_literals[key]

    def _new_value_literal(self, variable: int, value: int) -> int:
        """The literal `variable = value`: what `truth` would make, but quicker, as large models have many of them."""
        literal = self.boolean()
        for condition, domain in ((literal, (value, value)), (~literal, (LOWEST, value - 1, value + 1, HIGHEST))):
            proto = self._constraints.add()
            proto.enforcement_literal.append(condition)
            linear = proto.linear
            linear.vars.append(variable)
            linear.coeffs.append(1)
            linear.domain.extend(domain)
        self.suggest(literal, [Term(variable, 1, 0)], lambda values: values[0] == value)
        return literal

    def is_in(self, term: Term, values: IntSet) -> int:
        """The literal `term is one of values`, shared and simplified as that of `equals_value`."""
        variable, coefficient, offset = term
        if not coefficient:
            return TRUE if offset in values else FALSE
        domain = self.domain(variable)
        if coefficient == 1:
            inside = domain & values.plus(-offset)
        else:
            inside = IntSet.of_values(value for value in domain if coefficient * value + offset in values)
        outside = domain & inside.complement()
        if not inside.ranges or not outside.ranges:
            return TRUE if inside.ranges else FALSE
        if inside.ranges[0][0] == inside.ranges[-1][1]:
            return self.equals_value(Term(variable, 1, 0), inside.ranges[0][0])
        if outside.ranges[0][0] == outside.ranges[-1][1]:
            return ~self.equals_value(Term(variable, 1, 0), outside.ranges[0][0])
        key = (variable, inside)
        if key not in self._set_literals:
            self._set_literals[key] = self.truth((1,), (Term(variable, 1, 0),), inside)
        return self._set_literals[key]

    def truth(self, coefficients: Sequence[int], terms: Sequence[Term], values: IntSet) -> int:
        """A literal that is true exactly if the sum of coefficient * term is among the values."""
        bounds = [self.bounds(term.times(factor)) for factor, term in zip(coefficients, terms, strict=True)]
        possible = IntSet.of_range(sum(low for low, _ in bounds), sum(high for _, high in bounds))
        if not (possible & values).ranges:
            return FALSE
        if not (possible & values.complement()).ranges:
            return TRUE
        literal = self.boolean()
        for condition, allowed in ((literal, values), (~literal, values.complement())):
            self.linear(coefficients, terms, allowed.flat(), [condition])
        self.suggest(literal, terms, lambda numbers: sum(map(mul, coefficients, numbers)) in values)
        return literal

    def block(self, variables: Sequence[int], values: Iterable[int]) -> None:
        """Not all of the variables have these values."""
        pairs = zip(variables, values, strict=True)
        self.clause([~self.equals_value(Term(variable, 1, 0), value) for variable, value in pairs])

    @staticmethod
    def write(term: Term, proto: Proto) -> None:
        """Copy an operand into a `LinearExpressionProto`."""
        if not all(LOWEST <= number <= HIGHEST for number in term):
            raise ModelError("the numbers of an expression do not fit in 64 bits")
        if term.coefficient:
            proto.vars.append(term.variable)
            proto.coeffs.append(term.coefficient)
        proto.offset = term.offset

    def write_all(self, terms: Sequence[Term], protos: Proto) -> None:
        """Copy operands into a repeated field of `LinearExpressionProto`."""
        for term in terms:
            self.write(term, protos.add())
