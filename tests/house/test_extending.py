"""The examples of docs/extending.md, done in a copy of the package as the page says: they work, and touch little."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("extending")  # one worker makes what all tests of this file share

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^(?:`([^`\n]+)`:\n\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""The file that it goes to, what it is, and the lines."""
PARTS = ("moccasin_mzn", "models")
MOST_FILES = 2
NAMES = """
from moccasin_mzn.api.compare import contenders
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.graphs.formats import kinds_text
from moccasin_mzn.graphs.generators.catalogue import NETWORKS
forms = [name for form in FORMULATIONS for name, _ in form.forms()]
print(*(one.label for one in contenders()), *forms, *NETWORKS, kinds_text(), sep="\\n")
"""


@dataclass
class Example:
    """A section of the page."""

    files: dict[str, str] = field(default_factory=dict)
    """New ones, by path."""
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, what stands there, and what shall."""
    runs: list[tuple[str, list[str]]] = field(default_factory=list)
    """A command, and pieces of what it prints, in their order."""


def examples() -> dict[str, Example]:
    """By heading; what stands above the first one is under an empty heading."""
    found = {}
    for section in re.split(r"^## ", f"## \n{PAGE}", flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        example = found[heading] = Example()
        for title, kind, body in BLOCK.findall(text):
            lines = body.splitlines()
            if kind == "console":
                example.runs.append((lines[0].removeprefix("$ "), lines[1:]))
            elif kind == "diff":
                before, after = ("\n".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
                example.changes.append((title, before, after))
            else:
                example.files[title] = body
    return found


EXAMPLES = examples()
ADDED = [heading for heading in EXAMPLES if heading]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for part in PARTS
        for path in (folder / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def apply(example: Example, folder: Path) -> None:
    """Do what a section says; a file that is there is not overwritten, a change is of what stands there once."""
    for name, text in example.files.items():
        path = folder / name
        assert path.parent.is_dir() and not path.exists(), name
        path.write_text(text, encoding="utf-8")
    for name, before, after in example.changes:
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(f"{before}\n") == 1, f"{name} has other lines than the page says: {before}"
        (folder / name).write_text(text.replace(f"{before}\n", f"{after}\n"), encoding="utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> tuple[Path, dict[str, set[str]]]:
    """A copy of the package with all examples, and the files that each has touched."""
    folder = tmp_path_factory.mktemp("extended")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part)
    touched, before = {}, contents(folder)
    for heading, example in EXAMPLES.items():
        apply(example, folder)
        after = contents(folder)
        touched[heading] = {name for name, content in after.items() if before.get(name) != content}
        before = after
    return folder, touched


def run(folder: Path, *words: str) -> str:
    """What a command of the copy prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.few(1)
@pytest.mark.parametrize("heading", ADDED)
def test_an_addition_works_and_touches_two_files_at_most(extended, heading):
    folder, touched = extended
    assert 1 <= len(touched[heading]) <= MOST_FILES
    assert EXAMPLES[heading].runs
    for command, pieces in EXAMPLES[heading].runs:
        python, *words = shlex.split(command)
        assert python == "python"
        rest = " ".join(run(folder, *words).split())
        for piece in pieces:
            _, there, rest = rest.partition(" ".join(piece.split()))
            assert there, f"{command} does not print: {piece}"


def test_there_is_an_example_of_each_kind():
    assert ADDED == [
        "A formulation",
        "A strategy",
        "A search",
        "A deployment",
        "An importer",
        "A reader",
        "A solver",
        "A network",
    ]


def test_every_list_has_what_was_added(extended):
    folder, _ = extended
    told = json.loads(run(folder, "-m", "moccasin_mzn", "list", "--json"))
    assert {"staged-lean", "keep-late"} <= {method["name"] for method in told["methods"]}
    assert "cbc" in told["solvers"]
    names = run(folder, "-c", NAMES).splitlines()
    assert names.count("staged-lean") == 2  # to compare, and to count its variables
    assert {"staged-lean alone", "keep-late", "lenet5", 'JSON, GraphML, DOT or lines of "node" and "edge"'} <= {*names}
