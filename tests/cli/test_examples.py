"""The help of every command ends with an example, and the examples run."""

from __future__ import annotations

import click
import pytest
from page_runs import Command, Folder, is_here

from moccasin_mzn.cli.main import EXAMPLES, main

NEEDS = {"torch": "torch", "tflite": "ai_edge_litert", "c": "ai_edge_litert"}
"""Packages of extras that the tests do without."""


def commands_of(group, words=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def test_every_command_has_an_example():
    commands = dict(commands_of(main))
    assert set(EXAMPLES) == set(commands)
    for words, command in commands.items():
        text = command.get_help(command.context_class(command, info_name=words))
        assert text.endswith(f"Example:\n  moccasin-mzn {words} {EXAMPLES[words]}".rstrip())


@pytest.mark.full
@pytest.mark.parametrize("words", EXAMPLES)
@pytest.mark.filterwarnings("ignore")
def test_examples_run(command, monkeypatch, tmp_path, words):
    need = NEEDS.get(words.split()[-1])
    if need and not is_here(need):
        pytest.skip(f"{need} is missing")
    monkeypatch.syspath_prepend(str(tmp_path))  # where `python -m` finds my.module
    folder = Folder.of(tmp_path, command, monkeypatch)
    example = Command(f"python -m moccasin_mzn {words} {EXAMPLES[words]}".rstrip(), None)
    folder.prepare([example])
    assert folder.run(example) is None
