"""Solution checkers among the models, run by MiniZinc: the verdict on data with a solution."""

from __future__ import annotations

import re
from collections.abc import Mapping

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.models import models_folder
from moccasin_mzn.solvers.minizinc.run import Value, dzn_text, printed
from moccasin_mzn.solvers.minizinc.solvers import find_backend

SCHEDULES = re.compile(r"CORRECT: duration (\d+), peak (\d+)")
"""The words of the checkers of schedules that accept one."""


class CheckError(InputError):
    """A solution checker rejects what the simulator accepts, or finds other figures: an error of one of them."""

    kind = "judge"


def check_solution(checker: str, solution: Mapping[str, Value], correct: re.Pattern[str] = SCHEDULES) -> str:
    """The verdict, in one line, of a model's checker on a solution as a solver left it, with the data of its model; as
    for `run_checker`, but a CheckError if it is not what `correct` matches."""
    verdict = run_checker(checker, solution)
    if not correct.fullmatch(verdict):
        raise CheckError(f"{checker} rejects the solver's solution: {verdict}")
    return f"{checker}: CORRECT, the solver's own solution"


def run_checker(checker: str, items: Mapping[str, Value]) -> str:
    """Return the verdict of a checker on the data and the solution in `items`: its first line.

    Raises:
        InputError: MiniZinc is missing or failed.
    """
    text = printed(find_backend("cp-sat"), [str(models_folder() / checker)], dzn_text(items))
    return text.partition("\n")[0].strip()
