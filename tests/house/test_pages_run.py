"""Every shell block of the pages runs and prints what the page shows, or says why it does not."""

from __future__ import annotations

import re

import pytest
from documents import ROOT, Block, page
from page_runs import SHELLS, Command, Folder, agrees, is_shell, pages_of, run_page


@pytest.fixture
def folder(command, monkeypatch, tmp_path):
    return Folder.of(tmp_path, command, monkeypatch)


@pytest.mark.parametrize("name", pages_of("default"))
def test_blocks_of_pages_run(folder, name):
    run_page(folder, name, "default")


@pytest.mark.full
@pytest.mark.parametrize("name", pages_of("full"))
def test_blocks_that_take_longer_run(folder, name):
    run_page(folder, name, "default", "full")


@pytest.mark.slow
@pytest.mark.parametrize("name", pages_of("slow"))
def test_blocks_that_take_minutes_run(folder, name):
    run_page(folder, name, "default", "full", "slow")


def test_blocks_that_are_not_run_have_a_reason():
    reasons = [block.reason for blocks in SHELLS.values() for block in blocks if block.reason]
    assert all(len(reason.split()) > 3 for reason in reasons)
    assert len(reasons) <= 15


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Command("python -m moccasin_mzn info GRAPH", "...nodes 12\n..."), None),
        (Command("python -m moccasin_mzn info GRAPH", "...nodes 13\n..."), "the page shows"),
        (Command("python -m moccasin_mzn info GRAPH --fast", None), "exit status 2, not 0"),
        (Command("python -m moccasin_mzn info NONE", "...NONE: ...", 2), None),
        (Command("cat NONE | cat", None), None),
        (Command("cat NONE", None), "exit status 1"),
    ],
)
def test_a_wrong_output_on_a_page_is_noticed(folder, asked, told):
    folder.prepare([asked])
    wrong = folder.run(asked)
    assert wrong is None if told is None else told in wrong


def test_pages_hide_what_follows_the_language_of_a_block():
    assert agrees("a  1\n...\nb ... c", "a 1\nx\ny\nb 2.5 s\nc\n") and agrees("── ─", "────── ─")
    assert not agrees("a 1", "a 12") and not agrees("a ...", "b c")
    assert is_shell(Block("", "\npython -m moccasin_mzn list\n")) and is_shell(Block("console", "$ ls"))
    assert not is_shell(Block("", "duration 34482\n")) and not is_shell(Block("python", "python = 1"))


@pytest.mark.full
def test_the_first_command_prints_what_the_readme_shows(folder):
    """`make solve`, by the recipe of the Makefile; of schedules that are equally short there are several."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^\t\$\(BIN\)/(python -m moccasin_mzn solve.*)$", makefile, re.M)[1]
    values = dict(re.findall(r"^(\w+) \?= (.*)$", makefile, re.M))
    words = [values.get(word.strip('"$'), word) for word in recipe.split()[3:]]
    folder.prepare([])
    (folder.path / "build").mkdir()
    status, out, error = folder.call(*words)
    (shown,) = (block.text for block in page("README.md").blocks if "63 + 8 nodes" in block.text)
    any_of_them = r"[\d.]+ s  63 \+ \d+|(?<=  schedule  )[▁-█]+|(?<=1\.96 GiB) +[\d.]+|(?<=found by )[a-z ]+"
    progress, _, told = re.sub(any_of_them, "...", shown.strip("\n")).partition("\n")
    assert status == 0 and (folder.path / "build" / "schedule.html").is_file()
    assert agrees(f"... {progress} ...", error) and agrees(f"{told} ...", out)
