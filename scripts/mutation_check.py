#!/usr/bin/env python
"""Do tests of the models catch slips in the models? Each slip is made in a copy, and named with what failed.

Copies the checkout, puts one deliberate slip after the other into a model, runs the tests of the models on the copy,
and prints which tests fail first. Exit status 1 if a slip goes unnoticed, or if the tests fail without one.

    .venv/bin/python scripts/mutation_check.py [NAME ...]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "strategies/test_baselines.py",
    *(f"formulations/test_{name}.py" for name in ("cross_check", "checkers", "models", "formulations", "windows")),
)
MOST_FAILURES = 4
"""After this many failures the slip is caught, and the other tests are left out."""


@dataclass(frozen=True)
class Slip:
    """A replacement in a file of models/lib."""

    name: str
    file: str
    before: str
    after: str


SLIPS = (
    Slip(
        "interval end off by one, served-by",
        "served_read.mzn",
        "(serves[j] -> at <= end[j])",
        "(serves[j] -> at <= end[j] + 1)",
    ),
    Slip("interval end off by one, reservoir", "reservoir.mzn", "[end[c] + 1 | c in IN", "[end[c] + 2 | c in IN"),
    Slip(
        "missing last use, served-by",
        "served_by.mzn",
        "constraint forall(e in SERVED, c in readings_of(head[e]))(",
        "constraint forall(e in SERVED diff {edges}, c in readings_of(head[e]))(",
    ),
    Slip(
        "missing last use, FREE",
        "checkmate_free.mzn",
        "k < head[d] /\\ head[d] <= t}",
        "k < head[d] /\\ head[d] < t}",
    ),
    Slip(
        "missing last use, ALIVE",
        "checkmate_alive.mzn",
        "then A[t, e + 1] else kept_on(t, tail[e]) endif",
        "then A[t, e + 1] else 0 endif",
    ),
    Slip(
        "wrong stage order, staged",
        "staged.mzn",
        "nodes * (stage[c] - 1) + node[c] else",
        "nodes * (stage[c] - 1) + nodes + 1 - node[c] else",
    ),
    Slip(
        "wrong stage order, FREE",
        "checkmate_free.mzn",
        "k < head[d] /\\ head[d] <= t}",
        "k > head[d] /\\ head[d] <= t}",
    ),
    Slip("budget one too large", "objective.mzn", "DURATION then budget else", "DURATION then budget + 1 else"),
    Slip("budget one too small", "retention.mzn", "c in COMPUTATION], capacity)", "c in COMPUTATION], capacity - 1)"),
    Slip("excess too cheap, elastic", "objective.mzn", "1 + LONGEST - DURATION_ONCE", "1"),
    Slip("default C too small", "instance.mzn", "then 2 else 1 endif | v", "then 1 else 1 endif | v"),
    Slip("default memory one stage short", "instance.mzn", "where last_use[v] >= k", "where last_use[v] > k"),
    Slip("too much dropped, cover", "cover.mzn", "number, -x)", "number, -x - 1)"),
    Slip("budget one too large, Checkmate", "checkmate.mzn", "var 0..budget: U", "var 0..budget + 1: U"),
    Slip(
        "interval-length domain one too small",
        "staged.mzn",
        "event(LATEST[v], LATEST[v]));",
        "event(LATEST[v], LATEST[v]) - 1);",
    ),
    Slip(
        "start domain one stage too small",
        "staged.mzn",
        "min(LATEST[v], nodes - EXIT)",
        "min(LATEST[v] - 1, nodes - EXIT)",
    ),
)


def main() -> int:
    """Try the slips named on the command line, or all."""
    chosen = [slip for slip in SLIPS if not sys.argv[1:] or any(name in slip.name for name in sys.argv[1:])]
    missed = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder) / "checkout"
        for part in ("moccasin_mzn", "models", "tests", "data"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, copy)
        print("| slip | file | caught by |\n| --- | --- | --- |", flush=True)
        for slip in (None, *chosen):
            failed = failures(copy, slip)
            if bool(failed) != (slip is not None):
                missed.append(slip.name if slip else "no slip")
            name, file = (slip.name, slip.file) if slip else ("none", "-")
            print(f"| {name} | {file} | {', '.join(failed) or 'nothing'} |", flush=True)
    print(f"\nnot as it should be: {', '.join(missed)}" if missed else "\nall slips are caught", flush=True)
    return 1 if missed else 0


def failures(copy: Path, slip: Slip | None) -> list[str]:
    """The first tests that fail with the slip in the copy."""
    if slip is None:
        return run_tests(copy)
    path = copy / "models" / "lib" / slip.file
    text = path.read_text(encoding="utf-8")
    if slip.before not in text:
        sys.exit(f"{slip.file} does not contain {slip.before}")
    path.write_text(text.replace(slip.before, slip.after), encoding="utf-8")
    try:
        return run_tests(copy)
    finally:
        path.write_text(text, encoding="utf-8")


def run_tests(copy: Path) -> list[str]:
    """Names of the first failing tests, one of each function."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command.append(f"--maxfail={MOST_FAILURES}")
    ended = subprocess.run([*command, *(f"tests/{name}" for name in TESTS)], cwd=copy, capture_output=True, text=True)
    failed = re.findall(r"^(?:FAILED|ERROR) tests/(\S+)", ended.stdout, re.M)
    if ended.returncode and not failed:
        failed = [f"pytest ended with {ended.returncode}"]
    first = {name.partition("[")[0]: name for name in reversed(failed)}
    return sorted(first.values())


if __name__ == "__main__":
    sys.exit(main())
