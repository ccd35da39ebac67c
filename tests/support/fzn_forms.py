"""Random instances of a constraint, compared in all its forms with a predicate in Python."""

from __future__ import annotations

import ast
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fzn_support import check_against, domain, flatzinc, minizinc
from hypothesis import strategies as st

from moccasin_mzn.solvers.cpsat.builder import Solver, Status
from moccasin_mzn.solvers.cpsat.search import add_hints
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.parser import parse

MOST_ASSIGNMENTS = 1500
FORMS = ("", "_imp", "_reif")


def int_operands(low: int, high: int) -> st.SearchStrategy[str]:
    """Constants and types of variables, with and without gaps."""
    values = st.integers(low, high)
    return st.one_of(
        st.tuples(values, values).map(lambda pair: f"{min(pair)}..{max(pair)}"),
        st.sets(values, min_size=1, max_size=4).map(set_text),
        values.map(str),
    )


bool_operands = st.sampled_from(["bool", "bool", "bool", "true", "false"])


class Instance:
    """Collects the variables of an instance, and compares a constraint on them with its definition.

    Arguments of the constraint are operands, lists of operands, and parameters as texts that start with a blank.
    """

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}

    def operand(self, name: str, kind: str) -> str:
        """The text of an operand that is a constant, or a new variable of this type."""
        if kind in ("true", "false") or kind.lstrip("-").isdigit():
            return kind
        self.declarations[name] = kind
        return name

    def array(self, name: str, kinds: Sequence[str], repeated: Sequence[int] = ()) -> list[str]:
        """Operands; those at the places `repeated` equal the first one."""
        operands = [self.operand(f"{name}{index}", kind) for index, kind in enumerate(kinds)]
        for place in repeated:
            if 0 < place < len(operands):
                self.declarations.pop(operands[place], None)
                operands[place] = operands[0]
        return operands

    def small(self) -> bool:
        """Are there few enough assignments to enumerate them?"""
        return math.prod(len(domain(kind)) for kind in self.declarations.values()) <= MOST_ASSIGNMENTS

    def check(
        self, name: str, arguments: Sequence[str | list[str]], holds: Callable[..., bool], forms: Sequence[str] = FORMS
    ) -> None:
        """Compare with `holds`, which takes the values of the arguments, parameters left out."""
        if not self.small():
            return
        operands = [argument for argument in arguments if not _is_parameter(argument)]
        for form, condition, text in _texts(name, arguments, forms):

            def expected(form=form, condition=condition, **assignment) -> bool:
                verdict = assignment.get("r", condition != "false")
                true = bool(holds(*(value(operand, assignment) for operand in operands)))
                return verdict == true if form == "_reif" else true or not verdict

            check_against(text, self.declarations | ({"r": "bool"} if condition == "r" else {}), expected)

    def check_hints(
        self,
        name: str,
        arguments: Sequence[str | list[str]],
        assignment: dict[str, object],
        forms: Sequence[str] = FORMS,
    ) -> None:
        """A warm start of all variables is completed to a solution; `assignment` satisfies the constraint unless it
        is in a form with a condition."""
        values = ",".join(json.dumps(each) for each in assignment.values())
        start = f"solve :: warm_start([{','.join(assignment)}],[{values}]) satisfy"
        for form, condition, text in _texts(name, arguments, forms):
            if condition in ("", "r"):
                declarations = self.declarations | ({"r": "bool"} if condition else {})
                _follow_hint(flatzinc(text, declarations).replace("solve satisfy", start), form)


def _follow_hint(text: str, form: str) -> None:
    problem = translate(parse(text))
    add_hints(problem)
    builder = problem.builder
    hinted = set(builder.model.solution_hint.vars)
    free = [index for index, low in enumerate(builder.lower) if low < builder.upper[index]]
    assert set(free) <= hinted, (text, form)
    solver = Solver()
    solver.parameters.fix_variables_to_their_hinted_value = True
    assert solver.solve(builder.model) == Status.OPTIMAL, text


def _is_parameter(argument: str | list[str]) -> bool:
    return isinstance(argument, str) and argument.startswith(" ")


def _texts(name: str, arguments: Sequence[str | list[str]], forms: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Form, condition and text of the constraint, with a variable and a constant condition."""
    texts = [f"[{','.join(each)}]" if isinstance(each, list) else each.strip() for each in arguments]
    for form in forms:
        for condition in ("r", "true", "false") if form else ("",):
            yield form, condition, f"{name}{form}({','.join([*texts, condition] if form else texts)})"


def value(operand: str | list[str], assignment: dict[str, object]) -> object:
    """An operand, or a list of them, under an assignment."""
    if isinstance(operand, list):
        return [value(each, assignment) for each in operand]
    return assignment[operand] if operand in assignment else json.loads(operand)


def set_text(values: Sequence[int]) -> str:
    """A set in FlatZinc."""
    return "{" + ",".join(map(str, sorted(values))) + "}"


def array_text(values: Sequence[object]) -> str:
    """An array parameter in FlatZinc, as an argument for `Instance.check`."""
    return (
        f" [{','.join(set_text(each) if isinstance(each, (set, frozenset)) else json.dumps(each) for each in values)}]"
    )


def model_solutions(model: str, folder: Path) -> list[tuple]:
    """All solutions of a MiniZinc model, each as the tuple that its output item shows, with None for absent."""
    source = folder / "model.mzn"
    source.write_text(model)
    result = minizinc("-a", "--solver", "cp-sat", source)
    assert result.returncode == 0 and result.stdout.endswith("==========\n"), result.stdout + result.stderr
    lines = (line for line in result.stdout.splitlines() if line.startswith("("))
    words = (line.replace("true", "True").replace("false", "False").replace("<>", "None") for line in lines)
    return sorted(map(ast.literal_eval, words), key=str)


def verdicts(rules: str, *truths: bool) -> list[list[bool]]:
    """All values of bools b, each of which stands to a condition as the rule says: `b = truth`, `b > truth` for b ->
    truth, or `b < truth` for truth -> b."""
    relations = {"=": lambda b, truth: b == truth, ">": lambda b, truth: b <= truth, "<": lambda b, truth: b >= truth}
    choices = [
        [b for b in (False, True) if relations[rule](b, bool(truth))] for rule, truth in zip(rules, truths, strict=True)
    ]
    return list(map(list, itertools.product(*choices)))
