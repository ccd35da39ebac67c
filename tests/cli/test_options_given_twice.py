"""An option is given once, in every command; what may be given several times says so."""

import click
import pytest

from moccasin_mzn.cli.main import main, run
from moccasin_mzn.cli.options import StrictCommand


def commands(group=main, path=()):
    """All commands below a group, each with its words, groups included."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def words_of(option):
    """What one types to give an option."""
    if option.is_flag:
        return [option.opts[-1]]
    return [option.opts[-1], *["1"] * option.nargs]


OPTIONS = [
    pytest.param(path, option, id=" ".join((*path, option.opts[0])))
    for path, command in commands()
    for option in command.params
    if isinstance(option, click.Option) and not option.is_eager
]


def test_all_commands_refuse_repeated_options():
    assert [path for path, command in commands() if not isinstance(command, StrictCommand)] == []
    assert len(OPTIONS) > 100


@pytest.mark.parametrize(("path", "option"), OPTIONS)
@pytest.mark.few(60)
def test_options_given_twice_are_refused(path, option, capsys):
    """The parser alone is asked: nothing runs."""
    context = click.Context(dict(commands())[path])
    parser = context.command.make_parser(context)
    words = words_of(option) * 2
    if option.multiple:
        values, _, _ = parser.parse_args(words)
        assert len(values[option.name]) == 2
        return
    with pytest.raises(click.UsageError, match="is given twice") as refusal:
        parser.parse_args(words)
    assert any(name in refusal.value.message for name in option.opts)
    parser.parse_args(words_of(option))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "g.json", "--budget", "0.8", "--budget", "0.9"], "--budget is given twice"),
        (["solve", "g.json", "--check", "--budget=1", "--check"], "--check is given twice"),
        (["solve", "g.json", "--two-phase", "--one-phase"], "--two-phase/--one-phase is given twice"),
        (["order", "g.json", "-o", "a", "--output", "b"], "--output is given twice"),
        (["generate", "chain", "-n", "3", "--nodes", "4"], "--nodes is given twice"),
        (["bench", "run", "e.toml", "--workers", "1", "--workers", "1"], "--workers is given twice"),
    ],
)
def test_options_given_twice_are_refused_before_any_file_is_read(arguments, message, capsys):
    assert run(arguments) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


def test_help_may_be_asked_for_twice(capsys):
    assert run(["solve", "--help", "--help"]) == 0
    assert "Find the shortest schedule" in capsys.readouterr().out
