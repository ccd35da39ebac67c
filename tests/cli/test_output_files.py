"""Files that commands write: nothing is written in place of an input, and one that fails takes nothing else along."""

import json
import os
import shutil
from pathlib import Path

import click
import pytest
from tiny_graphs import SKIP

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import load_json, replace_file
from moccasin_mzn.bench.store import Store
from moccasin_mzn.cli.common import write_files
from moccasin_mzn.cli.main import main
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.formats.dot import write_dot
from moccasin_mzn.graphs.formats.graphml import write_graphml

SOLVE = "solve g.json --budget 8 --addresses --max-computations counts.json --order order.json --warm-start start.json"
VALIDATE = "validate g.json printed.json --budget 8 --arrays --max-computations counts.json --order order.json"
EXPORT = (
    "export g.json --budget 8 --max-computations counts.json --order order.json --warm-start start.json --model own.mzn"
)
FRONTIER = "frontier g.json --budget 8 --max-computations counts.json --order order.json"
CASES = {  # a command and what it writes, then what it reads
    f"{SOLVE} --output": "g.json counts.json order.json start.json",
    f"{SOLVE} --buffers": "g.json counts.json order.json start.json",
    f"{SOLVE} --certificate": "g.json counts.json order.json start.json",
    "solve g.svg --budget 8 --plot": "g.svg",
    "solve g.json --budget 8 --paging --output": "g.json",
    "solve g.json --device gpu=8 --warm-start start.json --output": "g.json start.json",
    f"{FRONTIER} --output": "g.json counts.json order.json",
    f"{FRONTIER} --csv": "g.json counts.json order.json",
    "frontier g.svg --plot": "g.svg",
    "order g.json --order order.json --output": "g.json order.json",
    f"{VALIDATE} --output": "g.json printed.json counts.json order.json",
    f"{EXPORT} --output": "g.json counts.json order.json start.json",
    "solve g.json --budget 8 --model own.mzn --output": "g.json own.mzn",
    "allocate buffers.csv --output": "buffers.csv",
    "plot g.svg start.svg --order order.svg --output": "g.svg start.svg order.svg",
    "import graphml g.graphml --output": "g.graphml",
    "import dot g.dot --output": "g.dot",
    "import onnx g.json --output": "g.json",
    "import tflite g.json --output": "g.json",
    "deploy onnx g.json start.json --output": "g.json start.json",
    "deploy c-header g.json --output": "g.json",
    "deploy tflite g.json start.json --output": "g.json start.json",
    "deploy c g.json --output": "g.json",
    "reduce g.json --output": "g.json",
    "tile g.json --rows 1 --output": "g.json",
    "zero-copy g.json --output": "g.json",
    "solve g.json --budget 8 --tile 1 --tiled": "g.json",
    "convert g.json --to dot --output": "g.json",
    "bench export store.csv --format csv --output": "store.csv",
}
_FILES = "--order order.json --max-computations counts.json"
CASES |= {
    f"deploy {to} g.json --budget 9 {_FILES} --output new {kept}": "g.json counts.json order.json"
    for to in ("c", "tflite") for kept in ("--schedule", "--graph", "--plot")
}  # fmt: skip
WITHOUT_INPUTS = {"generate", "torch"}
ELSEWHERE = {
    "report": "a folder, see below", "package": "a new folder", "best-known": "reads what it writes, see below"
}  # fmt: skip
PAIRS = [(command, name) for command, names in CASES.items() for name in names.split()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder, the present one, with something of everything that commands read."""
    monkeypatch.chdir(tmp_path)
    write_graph(SKIP, "g.json")
    write_graphml(SKIP, "g.graphml")
    write_dot(SKIP, "g.dot")
    order, start = list(SKIP.nodes), ["x", "a", "b", "c", "x", "z"]
    Path("own.mzn").write_text('include "staged.mzn";\n')
    for name, content in {"counts": [2] * 5, "order": order, "start": start}.items():
        Path(f"{name}.json").write_text(json.dumps(content))
    for name in ("g", "start", "order"):
        shutil.copy(f"{name}.json", f"{name}.svg")
    Path("printed.json").write_text("active = [];\n----------\n")
    Path("buffers.csv").write_text("id,lower,upper,size\na,0,3,4\n")
    with Store.create(Path("store.csv")):
        pass
    return tmp_path


@pytest.mark.parametrize("link", ["itself", "another path", "symbolic", "hard"])
@pytest.mark.parametrize(("words", "name"), PAIRS)
@pytest.mark.few(60)
def test_an_input_is_no_output(command, folder, words, name, link):
    before = Path(name).read_bytes()
    output = Path("link" + Path(name).suffix)
    if link == "symbolic":
        output.symlink_to(name)
    elif link == "hard":
        os.link(name, output)
    else:
        output = Path(name) if link == "itself" else Path("..", folder.name, name)
    status, out, err = command(*words.split(), output)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {output}: ") and err.count("\n") == 1
    assert "would be lost" in err or "that is the store" in err
    assert Path(name).read_bytes() == before


def writers(group, above=()):
    """(words, option) of every option of a command that names a file or folder to write."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from writers(command, (*above, name))
            continue
        for option in command.params:
            names = ("output", "plot", "buffers", "certificate", "table", "tiled")
            if isinstance(option.type, click.Path) and option.name in names:
                yield (*above, name), max(option.opts, key=len)


def test_every_output_of_every_command_is_tried():
    tried = {tuple(words.split()) for words in CASES}
    for words, option in writers(main):
        if not WITHOUT_INPUTS & set(words) and words[-1] not in ELSEWHERE:
            assert any(case[: len(words)] == words and case[-1] == option for case in tried), (words, option)


@pytest.mark.parametrize("name", ["experiment.toml", "g.json", "buffers.csv"])
def test_a_table_of_best_known_values_replaces_no_other_file(command, folder, name):
    Path("experiment.toml").write_text('budgets = [8]\ntime_limit = 1\n\n[[graphs]]\npath = "g.json"\n')
    before = Path(name).read_bytes()
    status, out, err = command("bench", "best-known", "experiment.toml", "--table", name)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {name}: ") and err.count("\n") == 1
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize("name", ["store.sqlite", "published.csv"])
def test_a_report_does_not_replace_what_it_is_made_of(command, folder, name):
    os.rename("store.csv", "store.sqlite")
    Path("published.csv").write_text("graph,n\n")
    os.mkdir("r")
    os.link(name, "r/report.md")
    before = Path(name).read_bytes()
    status, out, err = command("bench", "report", "store.sqlite", "--published", "published.csv", "--output", "r")
    assert (status, out) == (2, "")
    assert "r/report.md: is " in err and "would be lost" in err and err.count("\n") == 1
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"{SOLVE} --output o.svg --plot o.svg", "o.svg: --output and --plot would be one file"),
        (f"{SOLVE} --output o.csv --buffers ./o.csv", "o.csv: --output and --buffers would be one file"),
        (f"{FRONTIER} --output here --csv link", "link: --output and --csv would be one file"),
        (f"{FRONTIER} --csv o.svg --plot ../FOLDER/o.svg", "o.svg: --csv and --plot would be one file"),
    ],
)
def test_two_outputs_are_two_files(command, folder, words, message):
    os.symlink("here", "link")
    status, out, err = command(*words.replace("FOLDER", folder.name).split())
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1
    assert not os.path.exists("o.svg") and not os.path.exists("o.csv") and not os.path.exists("here")


def test_devices_may_be_given_twice_and_words_are_no_files(command, folder):
    shutil.copy("order.json", "input")
    words = ["--output", "/dev/null", "--csv", "/dev/null", "--order", "input", "--max-computations", "2"]
    assert command("frontier", "g.json", "--budget", "8", *words)[0] == 0
    Path("2").write_text("")
    assert command("solve", "g.json", "--budget", "8", "--max-computations", "2", "--output", "2")[0] == 0
    assert json.loads(Path("2").read_text())["duration"] == 14


@pytest.mark.few(1)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("full", ["--output", "--plot", "--buffers"])
def test_a_file_that_fails_takes_nothing_along(command, folder, full):
    os.symlink("/dev/full", "full.svg")
    files = {"--output": "o.json", "--plot": "o.svg", "--buffers": "o.csv", full: "full.svg"}
    words = [word for pair in files.items() for word in pair]
    status, out, err = command("solve", "g.json", "--budget", "8", "--addresses", "--json", *words)
    told = json.loads(out)
    assert (status, told["duration"]) == (2, 14)
    assert [line for line in err.splitlines() if "error" in line] == [
        "error: full.svg: cannot write: No space left on device"
    ]
    assert {"o.json", "o.svg", "o.csv"} & set(os.listdir()) == {"o.json", "o.svg", "o.csv"} - {
        {"--output": "o.json", "--plot": "o.svg", "--buffers": "o.csv"}[full]
    }


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["frontier g.json --budget 8", "order g.json", "allocate buffers.csv"])
def test_the_answer_is_printed_all_the_same(command, folder, words):
    status, out, err = command(*words.split(), "--json", "--output", "/dev/full")
    assert status == 2 and json.loads(out)
    assert "error: /dev/full: cannot write: No space left on device" in err.splitlines()


def test_a_folder_that_has_gone_an_interrupt_and_lack_of_memory(tmp_path, capsys):
    def fail(error):
        raise error

    jobs = [
        (tmp_path / "gone" / "a", lambda: replace_file(tmp_path / "gone" / "a", "a")),
        (tmp_path / "b", lambda: fail(KeyboardInterrupt())),
        (tmp_path / "c", lambda: fail(MemoryError("Unable to allocate 9 GiB"))),
        (tmp_path / "d", lambda: fail(InputError("no\nd"))),
        (tmp_path / "e", lambda: replace_file(tmp_path / "e", "e")),
    ]
    assert not write_files(jobs)
    assert capsys.readouterr().err.splitlines() == [
        f"error: {tmp_path}/gone/a: cannot write: No such file or directory",
        f"error: {tmp_path}/b: not written: interrupted",
        f"error: {tmp_path}/c: cannot write: Unable to allocate 9 GiB",
        "error: no d",
    ]
    assert os.listdir(tmp_path) == ["e"]
    assert write_files(jobs[-1:])


def test_an_answer_outlives_a_minizinc_that_fails_when_it_is_to_be_checked(tmp_path, monkeypatch, command):
    """The search needs none; the solution checkers do."""
    graph, output = tmp_path / "g.json", tmp_path / "o.json"
    write_graph(SKIP, graph)
    broken = tmp_path / "bin" / "minizinc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:/usr/bin:/bin")
    status, out, err = command("solve", graph, "--budget", 8, "--search", "only", "--check", "--output", output)
    assert status == 2 and "optimal: proven" in out and "Traceback" not in err
    assert [line for line in err.splitlines() if line.startswith("error: ")] == [err.splitlines()[-1]]
    assert load_json(output)["status"] == "optimal" and load_json(output)["checks"] == []
