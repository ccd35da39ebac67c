"""What Gecode answers to the models of `conformance`, and the FlatZinc that MiniZinc makes of them, kept in files.

`golden/FAMILY.txt` has for each model its title, a line with the answer, and the FlatZinc:

- `all COUNT DIGEST`: so many solutions of the FlatZinc. They were Gecode's answer when MiniZinc printed them.
- `best OBJECTIVE DIGEST...`: the optimum and each solution that has it, or `best none`, as Gecode found them.

`python tests/support/golden.py`, or `make golden`, derives them anew, which fails where our solver and Gecode disagree.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from conformance import CASES, END, FOLDER, UNSATISFIABLE, Case, Workplace, blocks, objective

from moccasin_mzn.solvers.minizinc.solvers import LIBRARY

GOLDEN = FOLDER.with_name("golden")
ORIGIN = GOLDEN / "origin"
OPTIMUM = ("--output-mode", "dzn", "--output-objective")


class Golden(NamedTuple):
    """An answer as in a file, and the FlatZinc, empty where MiniZinc needs no solver."""

    answer: str
    flatzinc: str


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def all_answer(stream: str) -> str:
    """The answer that is a stream of all solutions."""
    assert stream.endswith((END + "\n", UNSATISFIABLE + "\n")), stream
    return f"all {len(blocks(stream))} {digest(blocks(stream))}"


def check_best(printed: str, answer: str) -> None:
    """What MiniZinc printed for our solver is an optimum, proved, and a solution that has it."""
    optimum, *solutions = answer.removeprefix("best ").split()
    if optimum == "none":
        assert printed == UNSATISFIABLE + "\n"
        return
    (best,) = blocks(printed)
    assert objective(best) == optimum and printed.endswith(END + "\n"), printed
    assert digest(without_objective(best)) in solutions, printed


def without_objective(block: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line for line in block if not line.startswith("_objective = "))


def best_answer(case: Case, workplace: Workplace) -> str:
    """Gecode's optimum, and all solutions that have it."""
    expected = workplace.gecode(case.oracle, *OPTIMUM)
    if UNSATISFIABLE in expected:
        return "best none"
    optimum = objective(blocks(expected)[-1])
    fixed, count = re.subn(
        r"solve\b[^;]*?\b(?:minimize|maximize)\b(.*?);",
        rf"constraint (\1) = {optimum}; solve satisfy;",
        case.oracle,
        flags=re.DOTALL,
    )
    assert count == 1
    optima = blocks(workplace.gecode(fixed, "-a", "--output-mode", "dzn"))
    return " ".join(["best", optimum, *sorted(map(digest, optima))])


def derive(case: Case, workplace: Workplace) -> Golden:
    """Ask our solver and Gecode, which must agree."""
    if case.optimises:
        answer, found = best_answer(case, workplace), workplace.solve(case, *OPTIMUM)
        check_best(found.printed, answer)
        return Golden(answer, found.flatzinc)
    expected, found = workplace.gecode(case.oracle, "-a"), workplace.solve(case, "-a")
    assert blocks(found.printed) == blocks(expected)
    assert found.printed.endswith((END + "\n", UNSATISFIABLE + "\n")), found.printed
    assert len(set(blocks(found.stream))) == len(blocks(found.stream)), "a solution comes twice"
    return Golden(all_answer(found.stream) if found.flatzinc else "all 0", found.flatzinc)


def read_golden() -> dict[str, Golden]:
    """By the names of the models."""
    kept = {}
    for path in GOLDEN.glob("*.txt"):
        for block in re.split(r"^%%% ", path.read_text(), flags=re.MULTILINE)[1:]:
            title, answer, flatzinc = block.split("\n", 2)
            kept[f"{path.stem}: {title}"] = Golden(answer, flatzinc)
    return kept


def minizinc_version() -> str:
    told = subprocess.run(["minizinc", "--version"], capture_output=True, text=True, timeout=60)
    return re.search(r"version ([\d.]+)", told.stdout)[1]


def sources() -> str:
    """A digest of the models and of our library for MiniZinc."""
    return digest(
        [(path.name, path.read_text()) for folder in (FOLDER, LIBRARY) for path in sorted(folder.glob("*.mzn"))]
    )


def write_golden() -> None:
    with multiprocessing.Pool(2) as pool:
        derived = dict(zip((case.name for case in CASES), pool.imap(_derive, CASES, chunksize=20), strict=True))
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for name, golden in derived.items():
        family, _, title = name.partition(": ")
        with (GOLDEN / f"{family}.txt").open("a") as file:
            file.write(f"%%% {title}\n{golden.answer}\n{golden.flatzinc}")
    ORIGIN.write_text(f"{minizinc_version()} {sources()}\n")


def _derive(case: Case) -> Golden:
    with tempfile.TemporaryDirectory() as folder:
        return derive(case, Workplace(Path(folder)))


if __name__ == "__main__":
    write_golden()
