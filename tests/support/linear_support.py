"""Running the linear backend from tests: one worker process for each engine, or as MiniZinc does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.minizinc.solvers import OWN

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "moccasin_mzn.solvers.linear"]
ENGINES = ["highs", "scip"]


class Worker:
    """Solves FlatZinc texts with one engine in a process that is started once."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        command = [sys.executable, str(Path(__file__).with_name("linear_worker.py"))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, bufsize=1
        )

    def solve(self, text: str, *flags: str) -> tuple[int, str, str]:
        """Exit status, stdout and stderr."""
        return self._ask(text, "--engine", self.engine, *flags)

    def relax(self, text: str, *seconds: float) -> tuple[str, float | None, list[float] | None]:
        """Status, objective and values of the linear relaxation, within a time limit if there is one."""
        return self._ask(text, "--relaxation", *seconds)

    def _ask(self, *request: object) -> tuple:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return tuple(json.loads(self.process.stdout.readline()))


@cache
def worker(engine: str) -> Worker:
    """The worker of an engine; it ends with this process, when its stdin is closed."""
    return Worker(engine)


def solve(engine: str, text: str, *flags: str) -> str:
    """What the solver prints; it must not fail or complain."""
    status, out, err = worker(engine).solve(text, *flags)
    assert (status, err) == (0, ""), err
    return out


def values(block: str) -> dict[str, object]:
    """The output items of a solution as Python values."""
    found = {}
    for line in block.splitlines():
        if not line.startswith("%"):
            name, _, value = line.rstrip(";").partition(" = ")
            found[name] = json.loads(re.sub(r"array\d+d\(.*(\[.*\])\)", r"\1", value))
    return found


def solutions(out: str) -> list[dict[str, object]]:
    """All solutions of an output."""
    return [values(block) for block in out.split("----------\n")[:-1]]


def minizinc(*arguments: object) -> subprocess.CompletedProcess:
    """Run native MiniZinc with all solvers of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        for solver in OWN.values():
            write_configuration(Path(folder), solver.configuration())
        command = ["minizinc", *map(str, arguments)]
        environment = {**ENVIRONMENT, "MZN_SOLVER_PATH": folder}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
