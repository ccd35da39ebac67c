"""Annotations of the solve item: search strategies and warm starts, and how these are completed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from moccasin_mzn.solvers.cpsat.builder import LIMIT, ModelError, Term, ValueChoice, VariableChoice, as_term
from moccasin_mzn.solvers.cpsat.registry import Handler, Operand, handler
from moccasin_mzn.solvers.cpsat.translate import Symbols, TranslatedModel
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, Call, Expression, calls_in, warm_starts

_VARIABLE_CHOICE = {
    "input_order": VariableChoice.CHOOSE_FIRST,
    "first_fail": VariableChoice.CHOOSE_MIN_DOMAIN_SIZE,
    "anti_first_fail": VariableChoice.CHOOSE_MAX_DOMAIN_SIZE,
    "smallest": VariableChoice.CHOOSE_LOWEST_MIN,
    "largest": VariableChoice.CHOOSE_HIGHEST_MAX,
}
_VALUE_CHOICE = {
    "indomain": ValueChoice.SELECT_MIN_VALUE,
    "indomain_min": ValueChoice.SELECT_MIN_VALUE,
    "indomain_max": ValueChoice.SELECT_MAX_VALUE,
    "indomain_median": ValueChoice.SELECT_MEDIAN_VALUE,
    "indomain_middle": ValueChoice.SELECT_MEDIAN_VALUE,
    "indomain_split": ValueChoice.SELECT_LOWER_HALF,
    "indomain_reverse_split": ValueChoice.SELECT_UPPER_HALF,
    "indomain_random": ValueChoice.SELECT_RANDOM_HALF,
}
_LEAST, _GREATEST = 0, 1
_FIRST_VALUE = {
    "indomain": _LEAST,
    "indomain_min": _LEAST,
    "indomain_split": _LEAST,
    "indomain_max": _GREATEST,
    "indomain_reverse_split": _GREATEST,
}
_SEARCHES = {"int_search": "Ints", "bool_search": "Bools"}
_WARM_STARTS = ("warm_start", "warm_start_int", "warm_start_bool")


def add_strategies(problem: TranslatedModel) -> int:
    """Turn the search annotations into decision strategies, in their order; how many there were.

    Choices that CP-SAT does not have become input order and least value.
    """
    count = 0
    for call, terms in _searches(problem):
        if terms:
            strategy = problem.builder.model.search_strategy.add()
            problem.builder.write_all(terms, strategy.exprs)
            _, variable_choice, value_choice = map(_name, call.arguments[:3])
            strategy.variable_selection_strategy = _VARIABLE_CHOICE.get(variable_choice, VariableChoice.CHOOSE_FIRST)
            strategy.domain_reduction_strategy = _VALUE_CHOICE.get(value_choice, ValueChoice.SELECT_MIN_VALUE)
            count += 1
    return count


def _name(value: Expression) -> str:
    """The expression itself if it is a name."""
    return value if type(value) is str else ""


def _searches(problem: TranslatedModel) -> Iterator[tuple[Call, list[Term]]]:
    """The search annotations, each with its variables as operands, without constants; none if of another type."""
    for call in calls_in(problem.file.solve.annotations):
        if call.name in _SEARCHES and len(call.arguments) >= 3:
            try:
                operands = problem.symbols.converters[_SEARCHES[call.name]](call.arguments[0])
            except ModelError:
                operands = []
            terms = [as_term(operand) if call.name == "bool_search" else operand for operand in operands]
            yield call, [term for term in terms if term.coefficient]


def add_hints(problem: TranslatedModel, *, from_strategies: bool = False) -> int:
    """Turn the warm starts into hints, the first one for each variable; how many variables got one.

    Variables that follow from hinted ones are hinted too, see `completion`. Without a warm start, `from_strategies`
    hints the value that each search annotation would try first.
    """
    hints: dict[int, int] = {}
    _collect_hints(problem, hints)
    if hints:
        Completion(problem, hints).run()
    elif from_strategies:
        _collect_first_values(problem, hints)
    if hints:
        proto = problem.builder.model.solution_hint
        proto.vars.extend(list(hints))
        proto.values.extend(list(hints.values()))
    return len(hints)


def _collect_first_values(problem: TranslatedModel, hints: dict[int, int]) -> None:
    for call, terms in _searches(problem):
        end = _FIRST_VALUE.get(_name(call.arguments[2]))
        if end is None:
            continue
        for term in terms:
            first = problem.builder.bounds(term)[end]
            hints.setdefault(term.variable, (first - term.offset) // term.coefficient)


def _collect_hints(problem: TranslatedModel, hints: dict[int, int]) -> None:
    symbols = problem.symbols
    for variable, value in warm_starts(problem.file, _WARM_STARTS, symbols.list):
        term, value = _operand(symbols, variable), _operand(symbols, value)
        if term is None or value is None or not term.coefficient or value.coefficient:
            continue
        steps, rest = divmod(value.offset - term.offset, term.coefficient)
        if rest == 0 and -LIMIT <= steps <= LIMIT:
            hints.setdefault(term.variable, steps)


def _operand(symbols: Symbols, value: Expression) -> Term | None:
    """An operand that may be bool or int; None for floats and sets."""
    if type(value) is bool or (type(value) is str and value in symbols.literals):
        return as_term(symbols.literal(value))
    if type(value) is int or (type(value) is str and value in symbols.integers):
        return symbols.term(value)
    return None


# --- Completes a warm start: CP-SAT only takes a hint for its first solution if every variable is in it -------

# MiniZinc introduces variables that no model mentions, for the objective, for sums and for the truth of constraints.
# Their values follow from those of the model's own variables through the constraints that define them. Here these
# constraints are evaluated as soon as all their other operands are known. Where r -> c is all that is asked of r, it
# is hinted as the truth of c.


Step = Callable[[], Iterable[int]]
"""Tries to find a value; returns the variables, one of which has to become known before it is worth another try."""
UNDEFINED = (ValueError, ArithmeticError, LookupError)
"""What functions raise where they have no value, such as the maximum of nothing or a division by a hinted 0."""


class Completion:
    """Extends `hints` (CP-SAT variable -> value) in place."""

    def __init__(self, problem: TranslatedModel, hints: dict[int, int]) -> None:
        self.problem = problem
        self.hints = hints
        self._waiting: dict[int, list[Step]] = defaultdict(list)
        self._ready: list[Step] = []

    def run(self) -> None:
        """Find all values that follow."""
        self._ready = list(self._definitions())
        while self._ready:
            step = self._ready.pop()
            for variable in step():
                self._waiting[variable].append(step)
        self._auxiliaries()

    def value(self, term: Term) -> int | None:
        """The value of an operand, None if it is not known."""
        if not term.coefficient:
            return term.offset
        known = self.hints.get(term.variable)
        return None if known is None else term.coefficient * known + term.offset

    def _auxiliaries(self) -> None:
        for variable, terms, rule in self.problem.builder.hint_rules:
            values = [value for value in map(self.value, terms) if value is not None]
            with suppress(*UNDEFINED):
                found = rule(values) if len(values) == len(terms) else None
                if found is not None:
                    self.hints.setdefault(variable, int(found))

    def _definitions(self) -> Iterable[Step]:
        converters = self.problem.symbols.converters
        for item in self.problem.file.constraints:
            known = handler(item.name)
            half = self.problem.halves.get(id(item))
            if half and half.counterpart:
                continue  # its bool is now a stronger one
            if known is not None and (item.name == "int_lin_eq" or known.value):
                operands = [converters[kind](value) for kind, value in zip(known.kinds, item.arguments, strict=True)]
                if item.name == "int_lin_eq":
                    yield self._equation(*operands)
                else:
                    yield self._function(known, operands)

    def _learn(self, term: Term, value: int) -> None:
        """The operand has this value, unless something else is known about it."""
        if term.coefficient and term.variable not in self.hints:
            steps, rest = divmod(value - term.offset, term.coefficient)
            if rest == 0 and LOWEST < steps < HIGHEST:
                self.hints[term.variable] = steps
                self._ready.extend(self._waiting.pop(term.variable, ()))

    def _equation(self, factors: list[int], terms: list[Term], total: int) -> Step:
        """sum factors * terms = total gives the last unknown term."""

        def step() -> Iterable[int]:
            rest, unknown = total, []
            for factor, term in zip(factors, terms, strict=True):
                value = self.value(term)
                if value is not None:
                    rest -= factor * value
                else:
                    unknown.append((factor, term))
                    if len(unknown) == 2:
                        return {term.variable for _, term in unknown}
            if unknown:
                factor, term = unknown[0]
                if factor and rest % factor == 0:
                    self._learn(term, rest // factor)
            return ()

        return step

    def _function(self, handler: Handler, operands: list[Operand]) -> Step:
        """The value of one operand, which may be an array, follows from all the others."""
        assert handler.value is not None
        value_of, target = handler.value, handler.target % len(operands)
        kind, operand = handler.kinds[target], operands[target]
        results = operand if kind == "Ints" else [as_term(operand) if kind == "Bool" else operand]
        others = [pair for index, pair in enumerate(zip(handler.kinds, operands, strict=True)) if index != target]

        def step() -> Iterable[int]:
            if None in map(self.value, results):
                try:
                    values = [self._evaluate(kind, operand) for kind, operand in others]
                except _Unknown as unknown:
                    return unknown.args
                try:
                    found = value_of(*values)
                except UNDEFINED:
                    return ()
                for term, number in zip(results, found if kind == "Ints" else [found], strict=False):
                    self._learn(term, int(number))
            return ()

        return step

    def _evaluate(self, kind: str, operand: Operand) -> Operand:
        if kind in ("Ints", "Bools"):
            return [self._evaluate(kind[:-1], element) for element in operand]
        if kind == "Bool":
            return bool(self._known(as_term(operand)))
        return self._known(operand) if kind == "Int" else operand

    def _known(self, term: Term) -> int:
        value = self.value(term)
        if value is None:
            raise _Unknown(term.variable)
        return value


class _Unknown(Exception):
    """The CP-SAT variable given as argument has no value yet."""
