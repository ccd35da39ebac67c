"""Run public MiniZinc models, drawn by a seed, on CP-SAT and on a reference solver, and check what CP-SAT answers.

    python scripts/public_models.py --seed 1 --count 100 FOLDER ... [--output rows.json] [--before rows.json]

FOLDER holds checked-out models, such as the folder `minizinc` of hakank/hakank, MiniZinc/minizinc-benchmarks or
MiniZinc/mzn-challenge. A model that lacks parameters is run with a data file of its folder, drawn too. Models that the
reference solver's library does not compile either are no models of MiniZinc here, and others are drawn in their place.

    proven    optimum, or that there is none, or a solution where any will do
    solved    a solution without a proof
    unknown   neither, in time
    refused   an error of CP-SAT alone
    WRONG     the reference solver refutes the answer, or rejects the solution with its variables fixed

With `--before` the models of an earlier run are run again, and its answers and CPU seconds stand next to the new ones.
`--checkout FOLDER` runs the CP-SAT of another checkout. Exit status 1 if any answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compare_solvers import Outcome, Runner, rejected, verdict

ROOT = Path(__file__).resolve().parents[1]
WRITE = (
    "import sys; from pathlib import Path; from moccasin_mzn.solvers.minizinc.solvers import CP_SAT; "
    "from moccasin_mzn.solvers.flatzinc.configuration import write_configuration; "
    "write_configuration(Path(sys.argv[1]), CP_SAT.configuration())"
)
SOLVE = re.compile(r"^\s*solve\b", re.MULTILINE)


def drawn(folders: list[Path], seed: int) -> Iterator[tuple[Path, random.Random]]:
    """The models of the folders in an order that the seed determines, each with a generator of its own."""
    models = sorted(path for folder in folders for path in folder.resolve().rglob("*.mzn"))
    random.Random(seed).shuffle(models)
    for model in models:
        if SOLVE.search(model.read_text(encoding="utf-8", errors="replace")):
            yield model, random.Random(f"{seed} {model.name}")


def with_data(model: Path, runner: Runner, generator: random.Random) -> tuple[list[Path], str] | None:
    """The data that a model is run with, and its kind (sat, min or max); None if it is not for the reference solver."""
    try:
        needs = runner.interface(model, [])["input"]
        files = sorted([*model.parent.rglob("*.dzn"), *model.parent.rglob("*.json")]) if needs else []
        if needs and not files:
            return None
        data = [generator.choice(files)] if needs else []
        return data, runner.interface(model, data)["method"]
    except (SystemExit, json.JSONDecodeError, KeyError):
        return None


def timed(runner: Runner, model: Path, data: list[Path], goal: str) -> tuple[Outcome, float]:
    """An outcome, and the CPU seconds of MiniZinc and its solver."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begin = spent()
    outcome = runner.run(model, data, goal)
    return outcome, spent() - begin


def answer(goal: str, ours: Outcome, reference: Outcome) -> str:
    """proven, solved, unknown, refused or WRONG, as far as the two outcomes show."""
    if verdict(goal, ours, reference) == "DIFFER" and (ours.status in ("optimal", "unsat") or not ours.solved):
        return "WRONG"
    if ours.status == "error":
        return "refused"
    proven = ours.status in ("optimal", "unsat") or (goal == "sat" and ours.solved)
    return "proven" if proven else "solved" if ours.solved else "unknown"


def rows(arguments: argparse.Namespace, ours: Runner, reference: Runner) -> Iterator[dict]:
    """The row of each model."""
    if arguments.before:
        before = json.loads(arguments.before.read_text())
        questions = iter([(Path(row["model"]), [*map(Path, row["data"])], row["goal"], row) for row in before])
    else:
        models = drawn(arguments.folders, arguments.seed)
        found = ((model, with_data(model, reference, generator)) for model, generator in models)
        questions = ((model, *which, None) for model, which in found if which is not None)
    left = arguments.count
    for model, data, goal, earlier in questions:
        if not left:
            return
        (mine, cpu), (other, _) = timed(ours, model, data, goal), _reference(reference, model, data, goal, earlier)
        if mine.status == "error" == other.status and earlier is None:
            continue
        left -= 1
        reported = answer(goal, mine, other)
        check = ""
        if mine.solved and reported != "WRONG":
            check = rejected(reference, model, data, goal, mine)
            reported = "WRONG" if check == "rejected" else reported
        yield {
            "model": str(model), "data": [*map(str, data)], "goal": goal, "answer": reported, "status": mine.status,
            "objective": mine.objective, "seconds": mine.seconds, "cpu": cpu, "check": check,
            "message": mine.message[-400:], "reference": [other.status, other.objective, other.seconds],
            "before": earlier and {key: earlier[key] for key in ("answer", "objective", "cpu", "seconds")},
        }  # fmt: skip


def _reference(runner: Runner, model: Path, data: list[Path], goal: str, earlier: dict | None) -> tuple[Outcome, float]:
    if earlier:
        return Outcome(*earlier["reference"], "", ""), 0.0
    return timed(runner, model, data, goal)


def line(row: dict) -> str:
    """A row in words."""
    before, names = row["before"], [Path(path).stem for path in (row["model"], *row["data"])]
    columns = [f"{row['answer']:8}{row['objective'] or '':>12} {row['cpu']:6.1f} s"]
    if before:
        columns.append(f"before {before['answer']:8}{before['objective'] or '':>12} {before['cpu']:6.1f} s")
    return "  ".join([*columns, f"{row['reference'][0]:8}{row['check']:10}", *names])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--time-limit", type=float, default=20, help="seconds for each run (default 20)")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose CP-SAT runs (default: this one)")
    parser.add_argument("--reference", default="gecode", help="the solver to compare with (default gecode)")
    parser.add_argument("--before", type=Path, help="the rows of an earlier run, to compare with")
    parser.add_argument("--output", type=Path, help="write the rows to this file")
    return parser.parse_args()


def main() -> None:
    arguments, reported = parse_arguments(), []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MZN_SOLVER_PATH": folder, "PYTHONPATH": str(arguments.checkout)}
        subprocess.run([sys.executable, "-c", WRITE, folder], env=environment, check=True)
        ours = Runner(["--solver", "cp-sat"], environment, arguments.time_limit)
        reference = Runner(["--solver", arguments.reference, "-G", "std"], environment, arguments.time_limit)
        for row in rows(arguments, ours, reference):
            reported.append(row)
            print(line(row), flush=True)
            if arguments.output:
                arguments.output.write_text(json.dumps(reported, indent=1) + "\n")
    print(*(f"{word} {count}" for word, count in Counter(row["answer"] for row in reported).items()), sep=", ")
    sys.exit(any(row["answer"] == "WRONG" for row in reported))


if __name__ == "__main__":
    main()
