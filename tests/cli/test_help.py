"""Help that can be read: options in named groups, commands in sections, the common ones first."""

from __future__ import annotations

import subprocess
import sys

import click
import cloup
import pytest

from moccasin_mzn.cli.main import SECTIONS, main
from moccasin_mzn.cli.solve import solve


def test_every_option_of_solve_is_in_a_named_group():
    context = cloup.Context(solve)
    named = [option for group in solve.option_groups for option in group.options]
    assert {option.name for option in named} == {
        option.name for option in solve.params if isinstance(option, click.Option) and not option.hidden
    }
    titles = [group.title for group in solve.option_groups]
    assert titles[:3] == ["Problem", "Search", "Output"] and titles[-1].endswith("devices")
    text = solve.get_help(context)
    positions = [text.index(f"\n{title}:\n") for title in titles]
    assert positions == sorted(positions) and text.index("--budget") < text.index("--time-limit") < text.index(
        "--paging"
    )


@pytest.mark.parametrize("name", list(main.commands))
def test_every_command_is_in_a_section(name):
    listed = [command for section in main.list_sections(cloup.Context(main)) for command in section.commands]
    assert listed.count(name) == 1


@pytest.mark.parametrize("name", list(main.commands))
def test_the_whole_help_has_the_sentence_that_the_commands_own_begins_with(name):
    sentences = {name: sentence for entries in SECTIONS.values() for name, (_, sentence) in entries.items()}
    assert main.commands[name].get_short_help_str(1000) == sentences[name]


def test_the_whole_help_imports_no_command():
    code = "import sys; from moccasin_mzn.cli.main import run; run(['--help']); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "moccasin_mzn.cli.main" in modules
    assert not {"numpy", "networkx", "moccasin_mzn.cli.solve", "moccasin_mzn.search"} & set(modules)
