"""Small MiniZinc models, from source to output, against Gecode on the decompositions of the standard library.

The models stand in `conformance/FAMILY.mzn`. A line `%%% TITLE` starts each; a line `%%% oracle` inside one starts an
equivalent model for Gecode, where the standard library or Gecode cannot take the first or is wrong about it.
`%%% TITLE [plain imp reif not]` makes one model for each form in brackets, by what `constraint ?(P);` becomes: `P`,
`r -> P`, `r <-> P`, `not P`.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fzn_support import ENVIRONMENT, minizinc, solve

from moccasin_mzn.solvers.cpsat.configuration import CP_SAT
from moccasin_mzn.solvers.cpsat.registry import HANDLERS
from moccasin_mzn.solvers.flatzinc.configuration import file_name

FORMS = {
    "plain": r"constraint \1;",
    "imp": r"var bool: r; constraint r -> (\1);",
    "reif": r"var bool: r; constraint r <-> (\1);",
    "not": r"constraint not (\1);",
}
END, UNSATISFIABLE = "==========", "=====UNSATISFIABLE====="
TIME_LIMIT = 60


@dataclass(frozen=True)
class Case:
    """A model, and the one that Gecode solves in its place."""

    name: str
    model: str
    oracle: str

    @property
    def optimises(self) -> bool:
        return re.search(r"\b(minimize|maximize)\b", self.model) is not None


def read_cases(path: Path) -> Iterator[Case]:
    for block in re.split(r"^%%% (?!oracle$)", path.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = block.partition("\n")
        title, _, forms = title.rstrip("]").partition(" [")
        model, _, oracle = text.partition("%%% oracle\n")
        for form in forms.split() or [""]:
            name = f"{path.stem}: {title}{form and ', '}{form}"
            yield Case(name, _in_form(model, form), _in_form(oracle or model, form))


def _in_form(text: str, form: str) -> str:
    return re.sub(r"constraint \?\((.*)\);", FORMS[form], text) if form else text


FOLDER = Path(__file__).parent / "conformance"
CASES = [case for path in sorted(FOLDER.glob("*.mzn")) for case in read_cases(path)]
WHOLE = {
    "arithmetic: div, signs of both, plain",
    "domains: unbounded objective",
    "extension: table, imp",
    "graphs: circuit, a shortest tour",
    "language: output of arrays, empty and three-dimensional",
    "language: output item",
    "optional: weighted choice, optimised",
    "search: warm_start inside of seq_search",
    "search: seq_search, nested",
    "sets: partition_set, reif",
    "sets: set_search, other choices, nested",
}
"""The models that also go through a solver process of their own."""

NEVER_WRITTEN = {
    "made total by MiniZinc, which has no half-reified form of it": """
        array_bool_element_imp array_int_element_imp array_var_bool_element_imp array_var_int_element_imp
        array_var_bool_element_from_imp array_var_int_element_from_imp int_abs_imp int_div_imp int_max_imp int_min_imp
        int_mod_imp int_plus_imp int_pow_imp int_times_imp array_bool_xor_imp""",
    "not asked for by the library, which has no redefinitions-2.2.1.mzn": "int_pow_fixed int_pow_fixed_imp",
    "another name of bool_not": "bool_ne bool_ne_imp bool_ne_reif bool_not_reif",
    "not declared by the library, since MiniZinc also writes them where they are wrong": """
        int_eq_imp int_ne_imp int_le_imp int_lt_imp int_lin_eq_imp int_lin_ne_imp int_lin_le_imp set_in_imp bool_eq_imp
        bool_le_imp bool_lt_imp bool_xor_imp bool_clause_imp""",
}
"""Why MiniZinc 2.6.4 writes no model with these constraints; they are tested as FlatZinc elsewhere."""


class Workplace:
    """A folder with a solver configuration whose executable only passes the FlatZinc on to this process, so that no
    Python process has to be started for a model."""

    def __init__(self, folder: Path, compiled: Path) -> None:
        self.folder, self.compiled = folder, compiled
        self.request, self.answer = folder / "request", folder / "answer"
        for pipe in (self.request, self.answer):
            os.mkfifo(pipe)
        script = folder / "solver"
        script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >"{self.request}"\nexec cat "{self.answer}"\n')
        script.chmod(0o755)
        configuration = {**CP_SAT.configuration(), "executable": str(script)}
        (folder / file_name(configuration)).write_text(json.dumps(configuration))
        self.environment = {**ENVIRONMENT, "MZN_SOLVER_PATH": str(folder)}

    def compile(self, case: Case) -> str:
        """The FlatZinc of a model, empty if there is none; compiled once only, by whichever process needs it first."""
        path = self.compiled / f"{CASES.index(case)}.fzn"
        if not path.exists():
            source = self._write(case.model)
            target = source.with_suffix(".fzn")
            command = ["minizinc", "-c", "--solver", "cp-sat", "--no-output-ozn", "--fzn", str(target), str(source)]
            target.unlink(missing_ok=True)
            subprocess.run(command, env=self.environment, capture_output=True, timeout=TIME_LIMIT)
            self._keep(case, target.read_text() if target.exists() else "")
        return path.read_text()

    def solve(self, case: Case, *flags: str) -> tuple[str, str]:
        """What MiniZinc prints, and what it got from our solver; that is empty if it never asked."""
        command = ["minizinc", "--solver", "cp-sat", *flags, str(self._write(case.model))]
        stream = ""
        with tempfile.TemporaryFile("w+") as errors:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
            pipe = os.open(self.request, os.O_RDONLY | os.O_NONBLOCK)
            process = subprocess.Popen(command, env=self.environment, text=True, **streams)
            try:
                ready, _, _ = select.select([pipe, process.stdout], [], [], TIME_LIMIT)
                if pipe in ready:
                    stream = self._reply(case, pipe)
                printed, _ = process.communicate(timeout=TIME_LIMIT)
            finally:
                os.close(pipe)
                process.kill()
            errors.seek(0)
            message = errors.read()
        assert process.returncode == 0 and "error" not in message.lower(), message + printed
        return printed, stream

    def _reply(self, case: Case, pipe: int) -> str:
        """Solve the file that the stand-in was called with, and hand the stream over."""
        *flags, path = os.read(pipe, 10_000).decode().split()
        flatzinc = Path(path).read_text()
        self._keep(case, flatzinc)
        stream = "=====ERROR=====\n"
        try:
            stream = solve(flatzinc, *flags)
        finally:
            self.answer.write_text(stream)
        return stream

    def gecode(self, model: str, *flags: str) -> str:
        command = ["minizinc", "--solver", "gecode", "-G", "std", *flags, str(self._write(model))]
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def _write(self, model: str) -> Path:
        path = self.folder / "model.mzn"
        path.write_text(model)
        return path

    def _keep(self, case: Case, flatzinc: str) -> None:
        fresh = self.folder / "kept.fzn"
        fresh.write_text(flatzinc)
        fresh.replace(self.compiled / f"{CASES.index(case)}.fzn")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Workplace:
    base = tmp_path_factory.getbasetemp()
    compiled = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    compiled.mkdir(exist_ok=True)
    return Workplace(tmp_path_factory.mktemp("conformance"), compiled)


def blocks(output: str) -> list[tuple[str, ...]]:
    """The solutions, each as its sorted lines."""
    return sorted(tuple(sorted(text.splitlines())) for text in output.split("----------\n")[:-1])


def objective(block: tuple[str, ...]) -> str:
    (line,) = [line for line in block if line.startswith("_objective = ")]
    return line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_solutions(case: Case, workplace: Workplace):
    if case.optimises:
        check_optimum(case, workplace)
        return
    expected = workplace.gecode(case.oracle, "-a")
    printed, stream = workplace.solve(case, "-a")
    assert blocks(printed) == blocks(expected)
    assert printed.endswith((END + "\n", UNSATISFIABLE + "\n")), printed
    assert len(set(blocks(stream))) == len(blocks(stream)), "a solution comes twice"


def check_optimum(case: Case, workplace: Workplace) -> None:
    """The same optimum, proved, and a solution that the oracle has among those of its constraints."""
    flags = ["--output-mode", "dzn", "--output-objective"]
    printed, _ = workplace.solve(case, *flags)
    expected = workplace.gecode(case.oracle, *flags)
    if UNSATISFIABLE in expected:
        assert printed == expected
        return
    (best,) = blocks(printed)
    assert objective(best) == objective(blocks(expected)[-1]) and printed.endswith(END + "\n")
    relaxed = re.sub(r"solve\b.*?\b(minimize|maximize)\b.*?;", "solve satisfy;", case.oracle, flags=re.DOTALL)
    solution = tuple(line for line in best if line != objective(best))
    assert solution in blocks(workplace.gecode(relaxed, "-a", "--output-mode", "dzn"))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in WHOLE], ids=lambda case: case.name)
def test_whole_pipeline(case: Case, workplace: Workplace, tmp_path: Path):
    source = tmp_path / "model.mzn"
    source.write_text(case.model)
    flags = [] if case.optimises else ["-a"]
    result = minizinc("--solver", "cp-sat", *flags, source)
    printed, _ = workplace.solve(case, *flags)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert (blocks(result.stdout), END in result.stdout) == (blocks(printed), END in printed)


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) and set(names) >= WHOLE


def test_every_constraint_is_written(workplace: Workplace):
    """Every constraint that the solver knows occurs in the FlatZinc of some model."""
    written = {
        name for case in CASES for name in re.findall(r"^constraint (\w+)\(", workplace.compile(case), re.MULTILINE)
    }
    excepted = set(" ".join(NEVER_WRITTEN.values()).split())
    assert HANDLERS.keys() - written - excepted == set()
    assert excepted & written == set()
