"""A linear relaxation solved in a process of its own.

OR-Tools and highspy each bring a HiGHS library, and the second one that a process loads does not find its own
functions. So a process that may use OR-Tools asks another one,
`python -m moccasin_mzn.solvers.linear.isolated FILE.fzn ANSWER.json`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from moccasin_mzn.clock import POLL_SECONDS
from moccasin_mzn.own_code import own_environment


class RelaxationError(Exception):
    """The other process failed; the message is the last line that it wrote."""


def relaxed_values(flat: str, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
    """The values of all variables in an optimal solution of the linear relaxation of a FlatZinc text.

    Returns:
        None if the relaxation is infeasible or unbounded, or `stop`, asked twenty times a second, says to end.

    Raises:
        RelaxationError: it cannot be read or solved.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        file, answer, complaints = (Path(folder) / name for name in ("model.fzn", "answer.json", "stderr"))
        file.write_text(flat, encoding="utf-8")
        command = [sys.executable, "-P", "-m", "moccasin_mzn.solvers.linear.isolated", str(file), str(answer)]
        environment = own_environment()
        with open(complaints, "wb") as stderr, subprocess.Popen(command, stderr=stderr, env=environment) as process:
            try:
                while process.poll() is None:
                    if stop():
                        return None
                    time.sleep(POLL_SECONDS)
            finally:
                process.kill()
        if process.returncode:
            lines = complaints.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RelaxationError(lines[-1] if lines else f"the process ended with {process.returncode}")
        return json.loads(answer.read_text(encoding="utf-8"))


def main(path: str, answer: str) -> None:
    """Solve the relaxation of a FlatZinc file and write the values of its variables, or null, as JSON."""
    from moccasin_mzn.solvers.flatzinc.parser import parse
    from moccasin_mzn.solvers.linear.program import linear_program
    from moccasin_mzn.solvers.linear.relaxation import solve_relaxation

    program = linear_program(parse(Path(path).read_text(encoding="utf-8"), path))
    values = solve_relaxation(program).values
    told = None if values is None else dict(zip(program.names, values.tolist(), strict=True))
    Path(answer).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
