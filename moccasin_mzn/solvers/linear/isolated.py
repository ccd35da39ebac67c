"""A linear relaxation solved, or a program written as a file, in a process of its own.

OR-Tools and highspy each bring a HiGHS library, and the second one that a process loads does not find its own
functions. So a process that may use OR-Tools asks another one,
`python -m moccasin_mzn.solvers.linear.isolated FILE.fzn ANSWER.json`, or `ANSWER.mps`, `ANSWER.lp`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from moccasin_mzn.base.environment import ended, own_environment


class RelaxationError(Exception):
    """The other process failed; the message is the last line that it wrote."""


def relaxed_values(flat: str, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
    """The values of all variables in an optimal solution of the linear relaxation of a FlatZinc text; None if it is
    infeasible or unbounded.

    Raises:
        RelaxationError: it cannot be read or solved.
        StoppedError: `stop` was true.
    """
    return json.loads(_answer(flat, "json", stop))


def program_text(flat: str, kind: str) -> str:
    """A FlatZinc text as a mixed-integer program, a file that any MIP solver reads: "mps" or "lp".

    Raises:
        RelaxationError: it cannot be read, or is not linear.
    """
    return _answer(flat, kind, lambda: False)


def _answer(flat: str, kind: str, stop: Callable[[], bool]) -> str:
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        file, answer = Path(folder) / "model.fzn", Path(folder) / f"answer.{kind}"
        file.write_text(flat, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "moccasin_mzn.solvers.linear.isolated", str(file), str(answer)]
        status, _, complaints = ended(command, stop, own_environment())
        if status:
            lines = complaints.strip().splitlines()
            raise RelaxationError(lines[-1] if lines else f"the process ended with {status}")
        return answer.read_text(encoding="utf-8")


def main(path: str, answer: str) -> None:
    """Solve the relaxation of a FlatZinc file and write the values of its variables, or null, as JSON; or write its
    program as it is."""
    from moccasin_mzn.solvers.flatzinc.parser import parse
    from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
    from moccasin_mzn.solvers.linear.highs import load, solve_relaxation
    from moccasin_mzn.solvers.linear.program import linear_program

    try:
        program = linear_program(parse(Path(path).read_text(encoding="utf-8"), Path(path).name))
    except FlatZincError as error:
        sys.exit(str(error))
    if Path(answer).suffix != ".json":
        highs = load(program, integer=True)
        for column, name in enumerate(program.names):
            highs.passColName(column, name)
        highs.writeModel(answer)
        return
    values = solve_relaxation(program).values
    named = None if values is None else dict(zip(program.names, values.tolist(), strict=True))
    Path(answer).write_text(json.dumps(named), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
