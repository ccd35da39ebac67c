"""Run MiniZinc models on CP-SAT and on a reference solver, and report where they disagree.

    python scripts/compare_solvers.py MODEL[@DATA] ... [--time-limit 30] [--reference gecode] [--output table.txt]

MODEL is a model, or a folder that stands for all models in it that no other one includes. A model that lacks parameters
is run with DATA or, without it, with each data file next to the model. Both solvers get the same time limit, which
includes compilation. A row has

    agree   both proved the same: the optimum, that there is a solution, or that there is none
    open    no proof by both, and no contradiction
    error   one of the solvers failed
    DIFFER  one proved what the other refutes, or the reference solver rejects the solution of CP-SAT

The last check fixes the variables to the solution and hands the model to the reference solver again. Exit status 1 if
any row is DIFFER, or error on the side of CP-SAT alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from moccasin_mzn.solvers.flatzinc.configuration import write_configuration  # noqa: E402
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT  # noqa: E402

GRACE = 30  # seconds after the time limit at which a run is ended


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: optimal, sat, unsat, unknown, unbounded or error, and its last solution in data file format."""

    status: str
    objective: float | None
    seconds: float
    solution: str
    message: str

    @property
    def solved(self) -> bool:
        """Is there a solution?"""
        return self.status in ("optimal", "sat")

    def cells(self) -> list[str]:
        """Status, objective and seconds for the table."""
        return [self.status, "" if self.objective is None else f"{self.objective:.10g}", f"{self.seconds:.1f}"]


@dataclass(frozen=True, slots=True)
class Runner:
    """MiniZinc with one solver, whose options are `solver`; each run has `limit` seconds."""

    solver: list[str]
    environment: dict[str, str]
    limit: float

    def run(self, model: Path, data: list[Path], goal: str) -> Outcome:
        """Solve a model for one solution (goal sat) or for its optimum."""
        flags = ["--output-mode", "dzn", "--output-objective", "--time-limit", str(round(1000 * self.limit))]
        begin = time.monotonic()
        out, errors = self._minizinc(*self.solver, *flags, *(["-i"] if goal != "sat" else []), model, *data)
        seconds = time.monotonic() - begin
        *blocks, ending = out.split("----------\n")
        solution = blocks[-1] if blocks else ""
        objective = re.search(r"^_objective = (.+);$", solution, re.MULTILINE)
        return Outcome(
            _status(bool(blocks), ending, goal),
            float(objective[1]) if objective and goal != "sat" else None,
            seconds,
            re.sub(r"^_objective = .*\n", "", solution, flags=re.MULTILINE),
            errors.strip(),
        )

    def interface(self, model: Path, data: list[Path]) -> dict:
        """What MiniZinc reports of a model, among it `method` (sat, min, max), and `input`, the missing parameters."""
        out, errors = self._minizinc("--model-interface-only", *self.solver, model, *data)
        if not out.startswith("{"):
            sys.exit(f"{model}: {errors.strip()}")
        return json.loads(out)

    def _minizinc(self, *arguments: object) -> tuple[str, str]:
        command = ["minizinc", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=self.environment, **pipes) as process:
            try:
                return process.communicate(timeout=self.limit + GRACE)
            except subprocess.TimeoutExpired:
                process.terminate()  # MiniZinc ends its solver
                return process.communicate()


def _status(solved: bool, ending: str, goal: str) -> str:
    for mark, status in (("ERROR", "error"), ("UNSATISFIABLE", "unsat"), ("UNBOUNDED", "unbounded")):
        if f"====={mark}=====" in ending:
            return status
    if solved:
        return "optimal" if goal != "sat" and "==========" in ending else "sat"
    return "unknown" if "=====UNKNOWN=====" in ending else "error"


def verdict(goal: str, ours: Outcome, reference: Outcome) -> str:
    """agree, open, error or DIFFER: how the two outcomes compare."""
    statuses = {ours.status, reference.status}
    if "error" in statuses:
        return "error"
    if not (ours.solved and reference.solved):
        if "unsat" in statuses and (ours.solved or reference.solved):
            return "DIFFER"
        return "agree" if statuses == {"unsat"} else "open"
    if goal == "sat":
        return "agree"
    best = (max if goal == "max" else min)(ours.objective, reference.objective)
    if any(outcome.status == "optimal" and not _same(outcome.objective, best) for outcome in (ours, reference)):
        return "DIFFER"
    return "agree" if statuses == {"optimal"} else "open"


def _same(left: float, right: float) -> bool:
    """Are two objectives one, but for what sums in floating point lose if they are no integers?"""
    return left == right or (left % 1 != 0 != right % 1 and math.isclose(left, right, rel_tol=1e-6))


def rejected(reference: Runner, model: Path, data: list[Path], goal: str, ours: Outcome) -> str:
    """What the reference solver proves of a solution: "rejected" if it is wrong or has another objective, "checked"
    if it is one, "" if nothing."""
    for name, text in (("solution.dzn", ours.solution), ("solution.mzn", _as_constraints(ours.solution))):
        with tempfile.TemporaryDirectory() as folder:
            fixed = Path(folder) / name
            fixed.write_text(text, encoding="utf-8")
            check = reference.run(model, [*data, fixed], goal)
        other = check.status == "optimal" and not _same(check.objective, ours.objective)
        if check.status != "unsat" and not other:
            return "checked" if check.solved else ""
    return "rejected"


def _as_constraints(solution: str) -> str:
    """The assignments of a solution as constraints: as data they change what `lb(x)` is in a model."""
    items = (item.partition("=") for item in solution.replace("\n", " ").split(";"))
    pairs = [(name.strip(), value.strip()) for name, _, value in items if value]
    return "\n".join(
        f"constraint array1d({name}) = array1d({value});"
        if value.startswith(("[", "array"))
        else f"constraint {name} = {value};"
        for name, value in pairs
    )


def instances(argument: str, runner: Runner) -> list[tuple[Path, list[Path]]]:
    """(model, its data files) for every run that an argument asks for."""
    name, _, data = argument.partition("@")
    if data:
        return [(Path(name), [Path(data)])]
    models = sorted(Path(name).resolve().rglob("*.mzn")) if Path(name).is_dir() else [Path(name)]
    interfaces = {model: runner.interface(model, []) for model in models}
    included = {file for interface in interfaces.values() for file in interface["included_files"]}
    found = []
    for model, interface in interfaces.items():
        if str(model) not in included:
            files = sorted(model.parent.glob("*.dzn")) if interface["input"] else []
            found += [(model, [file]) for file in files] or [(model, [])]
    return found


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[@DATA]")
    parser.add_argument("--time-limit", type=float, default=30, help="seconds for each run (default 30)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each solver (default 1)")
    parser.add_argument("--reference", default="gecode", help="the solver to compare with (default gecode)")
    parser.add_argument("--library", default="std", help="its globals library (default std), '' for its own")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    reference, threads, console = arguments.reference, ["-p", str(arguments.threads)], Console(stderr=True)
    table = Table("model", "data", "kind", "cp-sat", "objective", "s", reference, "objective", "s", "verdict")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        write_configuration(Path(folder), CP_SAT.configuration())
        environment = {**os.environ, "MZN_SOLVER_PATH": folder, "PYTHONPATH": str(ROOT)}
        library = ["-G", arguments.library] if arguments.library else []
        ours = Runner(["--solver", "cp-sat", *threads], environment, arguments.time_limit)
        other = Runner(["--solver", reference, *library, *threads], environment, arguments.time_limit)
        runs = [run for argument in arguments.models for run in instances(argument, ours)]
        for model, data in track(runs, console=console):
            goal = ours.interface(model, data)["method"]
            results = [runner.run(model, data, goal) for runner in (ours, other)]
            word = verdict(goal, *results)
            if results[0].solved and word != "DIFFER" and rejected(other, model, data, goal, results[0]) == "rejected":
                word = "DIFFER: rejected"
            failures += word.startswith("DIFFER") or results[0].status == "error" != results[1].status
            names = model.stem, " ".join(file.stem for file in data), goal
            table.add_row(*names, *results[0].cells(), *results[1].cells(), word)
            for name, result in zip(("cp-sat", reference), results, strict=True):
                if result.status == "error":
                    console.print(f"{model} {name}: {result.message[-500:]}", markup=False, highlight=False)
    result = Console(width=140, record=True)
    result.print(table)
    if arguments.output:
        result.save_text(arguments.output)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
