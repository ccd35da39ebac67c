"""A strict type checker finds the mistakes in a page of a user's code, and nothing in a page without any."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import moccasin_mzn as mz
from moccasin_mzn.base import vocabulary
from moccasin_mzn.base.option import options_of
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.report.plots.picture import AXES
from moccasin_mzn.search.options import Options, own_options
from moccasin_mzn.strategies import strategies

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "tests/support/typed_pages"
CORRECT, MISTAKES = PAGES / "correct.py", PAGES / "mistakes.py"
CONFIGURATION = """[mypy]
strict = True
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
ignore_missing_imports = True
"""
"""As a user's, who has the package installed: what is within it is not reported."""
_ERROR = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]")


@pytest.mark.full
def test_mypy_finds_planted_mistakes_and_no_others(tmp_path):
    (tmp_path / "mypy.ini").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [*command, CORRECT, MISTAKES], cwd=tmp_path, capture_output=True, text=True, env={"MYPYPATH": str(ROOT)}
    )
    found = [_ERROR.fullmatch(line) for line in done.stdout.splitlines() if ": error:" in line]
    assert found and all(found), done.stdout + done.stderr
    assert {(Path(one["file"]).name, int(one["line"]), one["code"]) for one in found} == {
        (MISTAKES.name, number, code)
        for number, line in enumerate(MISTAKES.read_text().splitlines(), 1)
        if "  # " in line
        for code in line.rpartition("  # ")[2].split(", ")
    }


def test_the_correct_page_uses_all_of_the_public_interface():
    page = CORRECT.read_text()
    compile(page, CORRECT.name, "exec")
    assert [name for name in mz.__all__ if f"mz.{name}" not in page] == []
    assert [
        name for name in dir(mz.Result) if not name.startswith("_") and name not in ("graph", "details")
        and f".{name}" not in page
    ] == []  # fmt: skip


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (vocabulary.FormulationName, [form.name for form in FORMULATIONS]),
        (vocabulary.StrategyName, [rule.name for rule in strategies()]),
        (vocabulary.Axis, AXES),
        *[
            (vocabulary.FormulationOptions.__annotations__[name].__forward_arg__, one.choices)
            for name, one in own_options().items()
            if one.choices and name != "redundant"
        ],
    ],
    ids=str,
)
def test_words_for_type_checkers_are_those_that_are_known(words, known):
    if isinstance(words, str):
        words = eval(words, vars(vocabulary))
    assert sorted(get_args(words)) == sorted(known)


def test_options_for_type_checkers_are_those_that_are_known():
    assert {*vocabulary.FormulationOptions.__annotations__, "model"} == {*own_options()}
    search = set(vocabulary.SearchArguments.__annotations__) - set(vocabulary.FormulationOptions.__annotations__)
    assert search == set(options_of(Options)) - {"like", "time_limit", "threads", "seed", "iterations"}


def test_the_package_says_that_it_has_types():
    assert (Path(mz.__file__).parent / "py.typed").is_file()
