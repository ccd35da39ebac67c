"""Annotations of the solve item: search strategies and warm starts."""

from __future__ import annotations

from collections.abc import Iterator

from moccasin_mzn.solvers.cpsat.builder import LIMIT, ModelError, Term, as_term
from moccasin_mzn.solvers.cpsat.completion import Completion
from moccasin_mzn.solvers.cpsat.solver import ValueChoice, VariableChoice
from moccasin_mzn.solvers.cpsat.symbols import Symbols
from moccasin_mzn.solvers.cpsat.translate import Problem
from moccasin_mzn.solvers.flatzinc.syntax import Call, Expression, calls_in, warm_starts

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


def add_strategies(problem: Problem) -> int:
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


def _searches(problem: Problem) -> Iterator[tuple[Call, list[Term]]]:
    """The search annotations, each with its variables as operands, without constants; none if of another type."""
    for call in calls_in(problem.file.solve.annotations):
        if call.name in _SEARCHES and len(call.arguments) >= 3:
            try:
                operands = problem.symbols.converters[_SEARCHES[call.name]](call.arguments[0])
            except ModelError:
                operands = []
            terms = [as_term(operand) if call.name == "bool_search" else operand for operand in operands]
            yield call, [term for term in terms if term.coefficient]


def add_hints(problem: Problem, *, from_strategies: bool = False) -> int:
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


def _collect_first_values(problem: Problem, hints: dict[int, int]) -> None:
    for call, terms in _searches(problem):
        end = _FIRST_VALUE.get(_name(call.arguments[2]))
        if end is None:
            continue
        for term in terms:
            first = problem.builder.bounds(term)[end]
            hints.setdefault(term.variable, (first - term.offset) // term.coefficient)


def _collect_hints(problem: Problem, hints: dict[int, int]) -> None:
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
