"""Help that can be read: options in named groups, commands in sections, the common ones first."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import cloup
import pytest
from test_examples import commands_of

from moccasin_mzn.cli.main import SUMMARIES, find_command, main
from moccasin_mzn.cli.solve import solve


def test_every_option_of_solve_is_in_a_named_group():
    context = cloup.Context(solve)
    named = [option for group in solve.option_groups for option in group.options]
    assert {option.name for option in named} == {
        option.name for option in solve.params if isinstance(option, click.Option) and not option.hidden
    }
    titles = [group.title for group in solve.option_groups]
    assert titles[:3] == ["Problem", "Search", "Output"] and titles[-1] == "Several memories of one device"
    text = solve.get_help(context)
    positions = [text.index(f"\n{title}:\n") for title in titles]
    assert positions == sorted(positions) and text.index("--budget") < text.index("--time-limit") < text.index(
        "--paging"
    )


@pytest.mark.parametrize("name", list(main.commands))
def test_every_command_is_in_a_section(name):
    listed = [command for section in main.list_sections(cloup.Context(main)) for command in section.commands]
    assert listed.count(name) == 1


ALL = dict(commands_of(main))
UNCLEAR = (
    "alike", "as it likes", "as of", "beside it", "compute again", "computed again", "do not learn", "for people",
    "tells", "told", "Undo it", "what they like", "whose it is",
)  # fmt: skip
"""Words with which sentences of the help were hard to read."""


def sentences(command):
    """The texts of a command's help: its own, and that of each option."""
    yield "itself", command.help
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and option.name != "help":
            yield option.opts[0], option.help


@pytest.mark.parametrize("words", ALL)
def test_every_help_is_whole_sentences_in_plain_words(words):
    for where, text in sentences(ALL[words]):
        text = " ".join((text or "").replace("\b", "").split())
        assert len(text.split()) >= 2, (where, text)
        assert text[0].isupper() or re.match(r"[a-z]+(-[a-z]+)?: |[a-z]+ in the paper: ", text), (where, text)
        assert re.search(r"[.)\]]$", re.sub(r"  \[default.*", "", text)), (where, text)
        assert not [word for word in UNCLEAR if re.search(rf"\b{word}\b", text)], (where, text)
        assert not re.search(r"\bDefault: ", text), (where, "defaults are in brackets at the end", text)


def test_every_command_has_a_summary_that_fits_in_a_list():
    groups = {name for name, one in main.commands.items() if isinstance(one, click.Group)}
    assert set(SUMMARIES) == set(ALL) | groups
    for words in ("", *sorted(groups)):
        group = find_command(main, words)
        text = group.get_help(cloup.Context(group, info_name=words, terminal_width=80))
        assert "..." not in text.replace("[ARGS]...", ""), text


def test_help_has_the_name_of_the_program(command):
    for words in ((), ("solve",), ("bench", "run")):
        status, out, _ = command(*words, "--help")
        assert status == 0 and out.startswith(" ".join(("Usage: moccasin-mzn", *words)))


def test_the_whole_help_imports_no_command():
    code = "import sys; from moccasin_mzn.cli.main import run; run(['--help']); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "moccasin_mzn.cli.main" in modules
    assert not {"numpy", "networkx", "moccasin_mzn.cli.solve", "moccasin_mzn.search"} & set(modules)
