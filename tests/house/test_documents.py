"""What the pages quote exists: paths, modules, commands with their options, make targets, links; and examples run."""

from __future__ import annotations

import importlib
import io
import json
import re
import tomllib
from contextlib import redirect_stdout
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from documents import NOTEBOOKS, PAGES, ROOT, page, words
from test_floors import FLOORS

import moccasin_mzn
from moccasin_mzn.cli.main import main

TOP = sorted({path.name for path in ROOT.iterdir()} - {"build", ".venv"}, key=len, reverse=True)
PATH = re.compile(
    rf"(?<![\w/.~-])(?:\.\./)*(?:lib|{'|'.join(map(re.escape, TOP))})/[\w./*-]*"  # from the checkout, or from models/
    r"|(?<![\w/*.-])[\w*.-]+\.mzn\b"
)
MODULE = re.compile(r"\bmoccasin_mzn(?:\.\w+)+")
THEIRS = {"cumulative.mzn", "globals.mzn"}
"""Of MiniZinc's library."""
YOURS = {"my.mzn", "latest.mzn", "few.mzn", "model.mzn", "model.mzc.mzn", "FILE.mzn"}
"""Of whoever reads."""

MAKES_FILES = "docs/extending.md"
NEEDS_TORCH = "docs/training.md"
"""Its examples are one program, which `tests/pytorch/test_training_page.py` runs."""
MADE = re.compile(r"^`([^`\n]+)`:$", re.M)
"""A file that the block below it is for, as `MAKES_FILES` has them."""

pages = pytest.mark.parametrize("name", [*PAGES, *NOTEBOOKS])


# files


def paths_of(name):
    """Paths that a page quotes, relative to the checkout or to its own folder; with what stands for many."""
    found = {path.rstrip(".") for path in PATH.findall(page(name).code)}
    return found - THEIRS - YOURS


def is_there(path, folder):
    places = [ROOT, folder, ROOT / "models"] if path.endswith(".mzn") else [ROOT, folder]
    return any(list(place.glob(path)) if "*" in path else (place / path).exists() for place in places)


@pages
def test_paths_on_pages_exist(name):
    made = {Path(path).name for path in MADE.findall((ROOT / name).read_text(encoding="utf-8"))}
    missing = [path for path in paths_of(name) if not is_there(path, page(name).folder)]
    missing = [path for path in missing if Path(path).name not in made and "NAME" not in path]
    assert missing == []


def test_paths_are_found_and_missed():
    assert {"moccasin_mzn/bounds", "tests/house/test_floors.py", "models/lib/cover.mzn"} <= paths_of(
        "docs/architecture.md"
    )
    assert "staged.mzn" in paths_of("models/README.md") and "lib/instance.mzn" in paths_of("models/README.md")
    assert is_there("*_staged.mzn", ROOT) and is_there("lib/cover.mzn", ROOT / "models")
    assert not is_there("moccasin_mzn/simulate.py", ROOT) and not is_there("*_nothing.mzn", ROOT)


@pages
def test_links_resolve(name):
    for link in page(name).links:
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page(name).folder / path).resolve() if path else ROOT / name
        relative = target.relative_to(ROOT).as_posix()  # within the checkout
        assert target.exists(), link
        assert not anchor or anchor in page(relative).anchors, link


def test_every_page_is_reached_from_the_readme():
    reached, new = set(), {"README.md"}
    while new:
        name = new.pop()
        reached.add(name)
        targets = {
            (page(name).folder / link.partition("#")[0]).resolve() for link in page(name).links if "://" not in link
        }
        new |= {each for each in (*PAGES, *NOTEBOOKS) if ROOT / each in targets} - reached
    assert reached == {*PAGES, *NOTEBOOKS}


# modules


@pages
def test_modules_import(name):
    made = MADE.findall((ROOT / name).read_text(encoding="utf-8")) if name == MAKES_FILES else ()
    for dotted in set(MODULE.findall(page(name).code)):
        if f"{dotted.replace('.', '/')}.py" in made:
            continue
        module, *attributes = dotted, *()
        while not importable(module):
            module, _, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
        thing = importlib.import_module(module)
        for attribute in attributes:
            assert hasattr(thing, attribute), dotted
            thing = getattr(thing, attribute)


def importable(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# commands


def command_of(given):
    """The command that words name, the words left, and whether they name one at all."""
    command, left = main, list(given)
    while isinstance(command, click.Group) and left and left[0] in command.commands:
        command = command.commands[left.pop(0)]
    return command, left


def options_of(command):
    """All options of a command, or of all commands of a group."""
    if isinstance(command, click.Group):
        return set().union(*map(options_of, command.commands.values()))
    context = click.Context(command, info_name=command.name)
    return {
        option
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def given_options(given):
    """Options among words; `--a/--b` are two."""
    return {option for word in given for option in re.findall(r"(?:^|(?<=/))--?[a-zA-Z][\w-]*", word) if word[0] == "-"}


def command_lines(name):
    """Words behind `moccasin-mzn`, and code that begins with the name of a command."""
    for line in page(name).lines:
        behind = re.search(r"(?:python -m moccasin_mzn|(?<![\"\w.])moccasin-mzn)(?: |$)(.*)", line)
        given = words(behind[1] if behind else line)
        if behind and given and given[0][0].isalpha():
            assert given[0] in main.commands, line
        if behind or (given and given[0] in main.commands):
            yield given


@pages
def test_commands_and_their_options_exist(name):
    for given in command_lines(name):
        command, left = command_of(given)
        unknown = given_options(left) - options_of(command) - {"-h", "--help"}
        assert unknown == set(), given
        if isinstance(command, click.Command) and not isinstance(command, click.Group) and "..." not in left:
            context = click.Context(command, info_name=command.name, resilient_parsing=True)
            command.make_parser(context).parse_args(list(left))  # options that take a value have one


@pages
def test_options_alone_exist(name):
    """Code that begins with an option: of some command, or of a script, a solver or a tool that the repository has."""
    sources = [*(ROOT / "scripts").glob("*.py"), *(ROOT / "moccasin_mzn" / "solvers").rglob("*.py")]
    others = set(re.findall(r"\"(--?[a-zA-Z][\w-]*)\"", "".join(path.read_text() for path in sources)))
    for line in page(name).codes:
        if line.startswith("-") and not line.startswith("-m "):
            assert given_options(words(line)) <= options_of(main) | others, line


def test_commands_are_found():
    lines = [given for name in PAGES for given in command_lines(name)]
    told = {command_of(given)[0].name for given in lines}
    assert set(main.commands) <= told  # each command is quoted somewhere
    assert ["solve", "GRAPH", "--budget", "0.8", "--order", "free"] in lines
    assert not {"--budgets"} <= options_of(main) and given_options(["--a/--b", "-x", "a-b", "-1"]) == {
        "--a",
        "--b",
        "-x",
    }


@pages
def test_scripts_have_their_options(name):
    for line in page(name).lines:
        script = re.search(r"\b((?:scripts|tests)/[\w/]+\.py)(.*)", line)
        if script:
            text = (ROOT / script[1]).read_text(encoding="utf-8")
            for option in given_options(words(script[2])):
                assert f'"{option}"' in text, line


@pages
def test_make_targets_and_variables_exist(name):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    variables = set(re.findall(r"^([A-Z]+) \?=", makefile, re.M)) | set(re.findall(r"\$\{?([A-Z]+)\b", makefile))
    variables |= set(re.search(r"^export (.*)$", makefile, re.M)[1].split())
    for line in page(name).lines:
        command, *given = words(line) or [""]
        if command == "make" and given and "-C" not in given:  # the Makefile of another folder
            assert given[0] in targets, line
            assert {word.partition("=")[0] for word in given[1:]} <= variables, line


def test_contributing_has_every_target():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1].split()
    assert {f"make {target}" for target in targets} <= set(page("CONTRIBUTING.md").codes)


@pages
def test_extras_exist(name):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"'\.\[([\w,]+)\]'", page(name).code):
        assert set(named.split(",")) <= set(extras), named


# examples


LONG_EXAMPLES = "docs/beyond-the-paper.md", "docs/tiling.md"
"""Pages whose first example takes seconds."""


def examples():
    for name in PAGES:
        if name in (MAKES_FILES, NEEDS_TORCH):
            continue  # tests of their own put the blocks to use
        for number, block in enumerate(block for block in page(name).blocks if block.language == "python"):
            if "executorch" in block.text or block.mark == "torch":
                continue  # other extras: test_executorch.py and tests/pytorch/test_pages_with_torch.py put them to use
            marks = [pytest.mark.full] if number == 0 and name in LONG_EXAMPLES else []
            yield pytest.param(block, id=f"{name} {number}", marks=marks)


@pytest.mark.parametrize("block", list(examples()))
def test_python_examples_print_what_they_show(block, monkeypatch):
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text, "example", "exec"), {"__name__": "example"})
    assert printed.getvalue().splitlines() == block.answers


@pages
def test_names_of_the_face_exist(name):
    for called in re.findall(r"\bmz\.(\w+)", page(name).code):
        assert hasattr(moccasin_mzn, called), called


# completeness


def test_the_readme_is_short_and_has_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert re.search(r"^make solve\b", text, re.M) and re.search(r"^make test\b", text, re.M)


def test_every_option_of_solve_is_documented():
    told = page("docs/user-guide.md").code + page("docs/beyond-the-paper.md").code
    hidden = {
        name for option in main.commands["solve"].params if getattr(option, "hidden", False) for name in option.opts
    }
    shown = set(options_of(main.commands["solve"])) - hidden - {"-h", "--help"}
    assert {option for option in shown if not re.search(rf"{option}(?![\w-])", told)} == set()


def test_every_key_of_json_is_documented(command, tmp_path):
    graph = tmp_path / "two.json"
    nodes = [{"id": node, "duration": 1, "size": 1} for node in "ab"]
    graph.write_text(
        json.dumps({"format": "moccasin-graph", "nodes": nodes, "edges": [{"source": "a", "target": "b"}]})
    )
    status, out, _ = command("solve", graph, "--budget", "100%", "--json")
    table = re.search(
        r"`--json` prints one object.*?\n\n(.*?)\n\n", (ROOT / "docs" / "user-guide.md").read_text(), re.S
    )[1]
    told = [key for row in table.splitlines()[2:] for key in row.split("|")[1].strip(" `").split()]
    assert status == 0 and set(told) == set(json.loads(out))


def test_the_architecture_has_the_floors():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (?:`moccasin_mzn/(\w+)`|(face):.*?) \|", text, re.M)
    floors = {room: number for number, rooms in enumerate(FLOORS, start=1) for room in rooms}
    assert {room or other: int(floor) for floor, room, other in rows} == floors


def test_every_model_is_documented():
    told = [path for path in paths_of("models/README.md") if path.endswith(".mzn")]
    there = {path.relative_to(ROOT / "models").as_posix() for path in (ROOT / "models").rglob("*.mzn")}
    assert {name for name in there if not any(fnmatch(name, path.removeprefix("models/")) for path in told)} == set()


def test_citation_and_licence_agree_with_the_package():
    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["title"], str(cited["version"]), cited["license"]) == tuple(
        project[key] for key in ("name", "version", "license")
    )
    assert cited["authors"] == project["authors"] and cited["keywords"] == project["keywords"]
    assert all(Path(ROOT, name).read_text().startswith("MIT License") for name in project["license-files"])
