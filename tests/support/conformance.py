"""The small MiniZinc models that our FlatZinc solver is compared with Gecode on.

The models stand in `tests/solvers/cpsat/conformance/FAMILY.mzn`. A line `%%% TITLE` starts each; a line `%%% oracle`
inside one starts an equivalent model for Gecode, where the standard library or Gecode cannot take the first or is
wrong about it. `%%% TITLE [plain imp reif not]` makes one model for each form in brackets, by what `constraint ?(P);`
becomes: `P`, `r -> P`, `r <-> P`, `not P`.
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
from typing import NamedTuple

from fzn_support import ENVIRONMENT, solve

from moccasin_mzn.solvers.flatzinc.configuration import file_name
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT

FORMS = {
    "plain": r"constraint \1;",
    "imp": r"var bool: r; constraint r -> (\1);",
    "reif": r"var bool: r; constraint r <-> (\1);",
    "not": r"constraint not (\1);",
}
END, UNSATISFIABLE = "==========", "=====UNSATISFIABLE====="
TIME_LIMIT = 60
NOT_PRESOLVED = "Warning during presolve: Error: solver backend cannot handle constraint"
"""What MiniZinc says from -O3 on where Gecode, which looks at the model first, does not know a constraint of ours."""


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


FOLDER = Path(__file__).resolve().parents[1] / "solvers" / "cpsat" / "conformance"
CASES = [case for path in sorted(FOLDER.glob("*.mzn")) for case in read_cases(path)]


class Answer(NamedTuple):
    """What MiniZinc printed; what it got from our solver, and for which FlatZinc: both empty if it never asked."""

    printed: str
    stream: str
    flatzinc: str


class Workplace:
    """A folder with a solver configuration whose executable only passes the FlatZinc on to this process, so that no
    Python process has to be started for a model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request, self.answer = folder / "request", folder / "answer"
        for pipe in (self.request, self.answer):
            os.mkfifo(pipe)
        script = folder / "solver"
        script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >"{self.request}"\nexec cat "{self.answer}"\n')
        script.chmod(0o755)
        configuration = {**CP_SAT.configuration(), "executable": str(script)}
        (folder / file_name(configuration)).write_text(json.dumps(configuration))
        self.environment = {**ENVIRONMENT, "MZN_SOLVER_PATH": str(folder)}

    def solve(self, case: Case, *flags: str) -> Answer:
        command = ["minizinc", "--solver", "cp-sat", *flags, str(self._write(case.model))]
        stream = flatzinc = ""
        with tempfile.TemporaryFile("w+") as errors:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
            pipe = os.open(self.request, os.O_RDONLY | os.O_NONBLOCK)
            process = subprocess.Popen(command, env=self.environment, text=True, **streams)
            try:
                ready, _, _ = select.select([pipe, process.stdout], [], [], TIME_LIMIT)
                if pipe in ready:
                    stream, flatzinc = self._reply(pipe)
                printed, _ = process.communicate(timeout=TIME_LIMIT)
            finally:
                os.close(pipe)
                process.kill()
            errors.seek(0)
            message = errors.read()
        complaints = message.replace(NOT_PRESOLVED, "").lower()
        assert process.returncode == 0 and "error" not in complaints, message + printed
        return Answer(printed, stream, flatzinc)

    def _reply(self, pipe: int) -> tuple[str, str]:
        """Solve the file that the stand-in was called with, and hand the stream over; both."""
        *flags, path = os.read(pipe, 10_000).decode().split()
        flatzinc = Path(path).read_text()
        stream = "=====ERROR=====\n"
        try:
            stream = solve(flatzinc, *flags)
        finally:
            self.answer.write_text(stream)
        return stream, flatzinc

    def gecode(self, model: str, *flags: str) -> str:
        command = ["minizinc", "--solver", "gecode", "-G", "std", *flags, str(self._write(model))]
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def _write(self, model: str) -> Path:
        path = self.folder / "model.mzn"
        path.write_text(model)
        return path


def blocks(output: str) -> list[tuple[str, ...]]:
    """The solutions, each as its sorted lines."""
    return sorted(tuple(sorted(text.splitlines())) for text in output.split("----------\n")[:-1])


def objective(block: tuple[str, ...]) -> str:
    (value,) = [line.removeprefix("_objective = ") for line in block if line.startswith("_objective = ")]
    return value.rstrip(";")
