"""Every table of figures names its command, and commands of scripts are understood by the scripts as they are."""

from __future__ import annotations

import argparse
import re
import runpy
import sys

import pytest
from documents import PAGES, ROOT, page, words

SCRIPTS = ROOT / "scripts"
READMES = (*PAGES, "data/instances/README.md", "data/paper/README.md")
COMMAND = re.compile(
    r"(?:python|moccasin-mzn|minizinc|make|bench (?:run|package|best-known)|solve|frontier|info|export|compare|list) "
    r"|scripts/\w+\.py"
)
NEEDS = {
    "bench_execution": "torch", "bench_planning": "torch", "torch_table": "torch", "bench_deploy_onnx": "onnxruntime",
    "bench_networks": "torch", "bench_estimate": "torch",
}  # fmt: skip
"""Packages that scripts import before they look at their command line."""


# tables


def sections(name):
    """Heading, and the lines below it up to the next heading of its level, deeper ones included."""
    lines, inside = (ROOT / name).read_text(encoding="utf-8").splitlines(), False
    places = []
    for at, line in enumerate(lines):
        inside ^= line.startswith("```")
        if re.match(r"#+ ", line) and not inside:
            places.append((at, len(line) - len(line.lstrip("#"))))
    for at, level in places:
        end = next((other for other, deep in places if other > at and deep <= level), len(lines))
        yield lines[at], lines[at + 1 : end]


def has_figures(rows):
    """Are most cells, but those of the first column, numbers that were measured, with decimals or thousands?"""
    cells = [cell.strip() for row in rows[2:] for cell in row.strip("|").split("|")[1:] if cell.strip()]
    figures = [cell for cell in cells if re.match(r"\*{0,2}[+-]?\d[\d,]*(\.\d+)?\*?\b", cell)]
    return 2 * len(figures) > len(cells) and any(re.search(r"\d[.,]\d", cell) for cell in figures)


def tables_of(lines):
    """The rows of each table."""
    found = [[]]
    for line in lines:
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [rows for rows in found if rows]


def measured():
    for name in READMES:
        for heading, lines in sections(name):
            if any(has_figures(rows) for rows in tables_of(lines)):
                yield pytest.param(heading, lines, id=f"{name}: {heading.strip('# ')}")


@pytest.mark.parametrize(("heading", "lines"), list(measured()))
def test_the_section_of_a_table_has_its_command(heading, lines):
    assert any(COMMAND.search(line) for line in lines if not line.startswith("|")), heading


def test_tables_of_figures_are_distinguished():
    assert has_figures(["| a | b |", "| --- | --- |", "| G1 | 2.296* |"])
    assert not has_figures(["| a | b |", "| --- | --- |", "| G1 | a word |"])
    assert len(list(measured())) > 25


NUMBER = re.compile(r"\**[<>≤≥~±+-]?(\d[\d,]*(\.\d+)?|\.\d+)( ?(%|s|ms|h|min|[KMGT]i?B|B|x))?\**")


def cells_of(row):
    return [cell.strip() for cell in row.replace(r"\|", "").strip().strip("|").split("|")]


def left_aligned_numbers(rows):
    """The headings of columns most of whose cells are numbers, and which are not aligned to the right."""
    alignments, body = cells_of(rows[1]), [cells_of(row) for row in rows[2:]]
    for column, (heading, alignment) in enumerate(zip(cells_of(rows[0]), alignments, strict=True)):
        cells = [row[column] for row in body if len(row) > column and row[column] not in ("", "-", "...")]
        if 2 * sum(NUMBER.fullmatch(cell) is not None for cell in cells) > len(cells) and alignment != "---:":
            yield heading


@pytest.mark.parametrize("name", READMES)
def test_columns_of_numbers_are_aligned_to_the_right(name):
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.M | re.S)
    tables = [rows for rows in tables_of(text.splitlines()) if len(rows) > 2 and "---" in rows[1]]
    assert [heading for rows in tables for heading in left_aligned_numbers(rows)] == []


def test_alignments_are_seen():
    rows = ["| a | b | c | d |", "| --- | --- | ---: | --- |", "| x | 2.296* | 5 | 12 % |", "| y | - | 6 | no |"]
    assert list(left_aligned_numbers(rows)) == ["b"]


# pictures


PICTURES = sorted((ROOT / "data").glob("*.svg"))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_has_its_command_and_a_ground_of_its_own(path):
    """On white, so that it can be read where the page around it is dark."""
    told = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    (item,) = (part for part in told.split("\n- ") if f"`{path.name}`" in part)
    assert re.search(rf"--plot data/{path.name}|`make bench`|`scripts/paper_figures.py`", item)
    first = re.search(r'<g id="patch_1">.*?style="fill: (#\w+)"', path.read_text(encoding="utf-8"), re.S)
    assert first[1] == "#ffffff"


@pytest.mark.parametrize("name", [name for name in PAGES if any(link.endswith(".svg") for link in page(name).links)])
def test_a_page_with_pictures_has_what_makes_them(name):
    makes = ("make bench", "make solve", "scripts/paper_figures.py")
    assert any("--plot " in line or line.startswith(makes) for line in page(name).lines)


# scripts


class Parsed(Exception):
    """The command line was understood."""


def parsed(monkeypatch, line):
    """Run a script up to where it has read its command line.

    Raises:
        SystemExit: it does not understand it.
    """
    script, *given = words(line)
    given = ["1" if re.fullmatch("[A-Z]+", word) else word for word in given if word != "..."]
    understood = argparse.ArgumentParser.parse_args

    def parse_args(self, args=None, namespace=None):
        understood(self, given, namespace)
        raise Parsed

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        patch.setattr(sys, "argv", [script, *given])
        patch.syspath_prepend(str(SCRIPTS))
        with pytest.raises(Parsed):
            runpy.run_path(str(ROOT / script), run_name="__main__")


def script_lines():
    """What follows Python on all pages, where it is a script and its arguments; alone it is a name, not a command."""
    found = (re.search(r"scripts/\w+\.py .+", line) for name in PAGES for line in page(name).lines)
    lines = {line[0] for line in found if line}
    return sorted(line for line in lines if "ArgumentParser" in (ROOT / words(line)[0]).read_text(encoding="utf-8"))


@pytest.mark.full
@pytest.mark.parametrize("line", script_lines())
def test_scripts_understand_their_commands(monkeypatch, line):
    need = NEEDS.get(words(line)[0].split("/")[1].removesuffix(".py"))
    if need:
        pytest.importorskip(need)
    parsed(monkeypatch, line)


def test_scripts_are_found():
    lines = script_lines()
    assert len(lines) > 15 and any("bench_search.py data/paper --seeds 3" in line for line in lines)


@pytest.mark.parametrize("slip", ["--seedz 3", "--time-limit soon", "--threads"])
def test_a_wrong_command_of_a_table_is_noticed(monkeypatch, capsys, slip):
    with pytest.raises(SystemExit):
        parsed(monkeypatch, f"scripts/bench_search.py data/paper {slip}")
    parsed(monkeypatch, "scripts/bench_search.py data/paper --seeds 3 --time-limit 60 --threads 2")
