"""Help that can be read: options in named groups, commands in sections, the common ones first."""

from __future__ import annotations

import click
import cloup
import pytest

from moccasin_mzn.cli.main import main
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
