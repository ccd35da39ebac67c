"""scripts/README.md is made from the first lines of the scripts, and these say what each measures or makes."""

from __future__ import annotations

import re

from script_loading import load_script

PAGE = load_script("make_scripts_page")


def test_the_page_is_made_from_the_scripts():
    assert PAGE.PAGE.read_text(encoding="utf-8") == PAGE.text(), "python scripts/make_scripts_page.py"


def test_the_first_line_says_what_a_script_measures_or_makes():
    """A whole sentence of some words, which does not lean on the name of the script, and each another one."""
    lines = {path.name: PAGE.first_line(path) for path in PAGE.scripts()}
    unclear = r"(This|It|A script|The script|Script|See|Usage|Helper)\b"
    for name, line in lines.items():
        assert re.fullmatch(r"[A-Z].*[.?]", line) and len(line.split()) >= 6 and not re.match(unclear, line), name
    assert len(set(lines.values())) == len(lines)
