"""`-o` and `--output` mean the same in every command that writes one thing."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from test_examples import commands_of

from moccasin_mzn.cli.main import main

COMMANDS = dict(commands_of(main))
PRINT_ONLY = ("compare", "info", "complexity", "list", "check-certificate", "install-solver", "compile")
"""Commands that write no file of the user's."""
OTHER_NAMES = {"run torch": "--save", "bench run": "--store", "bench best-known": "--table"}
"""Names from before, which stay."""
GRAPH = {
    "format": "moccasin-graph", "version": 1,
    "nodes": [{"id": node, "duration": 1, "size": size} for node, size in zip("xabcz", (2, 1, 7, 1, 1), strict=True)],
    "edges": [{"source": u, "target": v} for u, v in ("xa", "xz", "ab", "bc", "cz")],
}  # fmt: skip


def output_of(command):
    return next((o for o in command.params if isinstance(o, click.Option) and "--output" in o.opts), None)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_that_writes_has_both_names_of_one_option(words):
    option = output_of(COMMANDS[words])
    if words in PRINT_ONLY:
        assert option is None
        return
    assert option is not None and "-o" in option.opts
    assert OTHER_NAMES.get(words, "--output") in option.opts


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "g.json", "--budget", "100%", "--search", "only"],
        ["frontier", "g.json", "--budget", "100%", "--search", "only"],
        ["allocate", "b.csv"],
        ["validate", "g.json", "printed", "--arrays", "--budget", "100%"],
        ["order", "g.json"],
        ["export", "g.json", "--budget", "100%"],
    ],
    ids=lambda words: words[0],
)
def test_both_names_write_the_same_file(command, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("g.json").write_text(json.dumps(GRAPH))
    Path("b.csv").write_text("id,lower,upper,size\na,0,2,3\nb,1,3,4\n")
    Path("printed").write_text('sequence ["x", "a", "b", "c", "z"]\n----------\n')
    written = []
    for name in ("-o", "--output"):
        assert command(*words, name, "out.dzn" if words[0] == "export" else "out")[0] == 0
        (path,) = Path.cwd().glob("out*")
        text = path.read_text()
        written.append({**json.loads(text), "seconds": 0, "trace": 0} if text.startswith("{") else text)
        path.unlink()
    assert written[0] == written[1]
    assert command(*words, "-o", "one", "--output", "other")[2] == "error: --output is given twice\n"
