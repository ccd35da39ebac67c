"""scripts/README.md is made from the first lines of the scripts, and these say what each measures or makes."""

from __future__ import annotations

import re

import pytest
from script_loading import load_script

PAGE = load_script("make_scripts_page")


def test_the_page_is_made_from_the_scripts():
    assert PAGE.PAGE.read_text(encoding="utf-8") == PAGE.text(), "python scripts/make_scripts_page.py"


@pytest.mark.parametrize("path", PAGE.scripts(), ids=lambda path: path.name)
def test_the_first_line_says_what_a_script_measures_or_makes(path):
    """A whole sentence of some words, which does not lean on the name of the script or on what comes after it."""
    line = PAGE.first_line(path)
    assert re.fullmatch(r"[A-Z].*[.?]", line) and len(line.split()) >= 6, line
    assert not re.match(r"(This|It|A script|The script|Script|See|Usage|Helper)\b", line), line


def test_no_two_scripts_say_the_same():
    lines = [PAGE.first_line(path) for path in PAGE.scripts()]
    assert len(set(lines)) == len(lines)
