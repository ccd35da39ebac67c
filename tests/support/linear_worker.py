"""A process that solves one FlatZinc text after the other, as HiGHS and OR-Tools cannot both be in that of the tests.

Each line of stdin is a list in JSON: the text, then flags, of which --limit SECONDS is from now on. Each line of stdout
is [exit status, stdout, stderr], or, for the flag --relaxation, [status, objective, values].
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile

from moccasin_mzn.solvers.flatzinc.execution import seconds_since_start
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.linear.configuration import parse_options
from moccasin_mzn.solvers.linear.highs import solve_relaxation
from moccasin_mzn.solvers.linear.program import linear_program
from moccasin_mzn.solvers.linear.run import run


class NeverStop:
    """A stop flag that no signal sets."""

    requested = False
    armed = False


def solve(text: str, *flags: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the solver."""
    if "--limit" in flags:
        *flags, _, seconds = flags
        flags += ["-t", str(int(1000 * (seconds_since_start() + float(seconds))))]
    with tempfile.NamedTemporaryFile("w", suffix=".fzn") as file:
        file.write(text)
        file.flush()
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            status = run(parse_options([*flags, file.name]), NeverStop())
    return status, out.getvalue(), err.getvalue().replace(file.name, "FILE")


def relax(text: str, seconds: float | None = None) -> tuple[str, float | None, list[float] | None]:
    """The linear relaxation, within a time limit."""
    relaxation = solve_relaxation(linear_program(parse(text)), seconds)
    values = None if relaxation.values is None else relaxation.values.tolist()
    return relaxation.status, relaxation.objective, values


if __name__ == "__main__":
    for line in sys.stdin:
        text, *flags = json.loads(line)
        answer = relax(text, *flags[1:]) if flags[0] == "--relaxation" else solve(text, *flags)
        print(json.dumps(answer), flush=True)
