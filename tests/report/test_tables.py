"""Tables: numbers and names are whole, whatever is printed to."""

import io
import json

import pytest

from moccasin_mzn.report.tables import console, plain_table, print_table
from moccasin_mzn.search.catalogue import entries
from moccasin_mzn.strategies import strategies

NAME = "encoder block 17 / self attention / queries, keys and values, in one matrix"
PROSE = "a sentence of many words that may be folded wherever there is a blank between two of them, " * 3


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self):
        return True


def printed(out, monkeypatch, columns="50"):
    """A table of a name, a number and prose, as lines."""
    monkeypatch.setenv("COLUMNS", columns)
    table = plain_table(f"about {NAME}", ("name", "number", "what"), left=("name",), prose=("what",))
    table.add_row(NAME, "1,156,117,954,560 FLOP", PROSE)
    table.add_row("first\nsecond", "1\n22", "short")
    print_table(console(out), table)
    return out.getvalue().splitlines()


def test_a_pipe_gets_every_row_in_one_line(monkeypatch):
    lines = printed(io.StringIO(), monkeypatch)
    assert f"about {NAME}" in lines
    (row,) = (line for line in lines if line.startswith(f" {NAME}"))
    assert "1,156,117,954,560 FLOP" in row and PROSE.strip() in row


def test_a_terminal_folds_prose_alone(monkeypatch):
    lines = printed(Terminal(), monkeypatch)
    text = "\n".join(lines)
    assert NAME in text and "1,156,117,954,560 FLOP" in text and "\u2026" not in text
    assert PROSE.strip() not in text
    assert set(PROSE.split()) <= set(text.split())  # no word is broken
    wide = printed(Terminal(), monkeypatch, "1000")
    assert any(PROSE.strip() in line for line in wide)


def test_lines_of_a_cell_stay_beside_each_other(monkeypatch):
    lines = [line.split() for line in printed(io.StringIO(), monkeypatch)]
    assert ["first", "1", "short"] in lines and ["second", "22"] in lines


# commands


@pytest.fixture
def named(tmp_path):
    """A graph whose nodes have long names with blanks, and numbers of many digits; it needs recomputation at 80 %."""
    path = tmp_path / "named.json"
    nodes = [("x", 5, 2), ("a", 1, 1), ("b", 1, 7), ("c", 1, 1), ("z", 1, 1)]
    scale = 10**11
    document = {
        "nodes": [
            {"id": node, "duration": duration * scale, "size": size * scale, "label": f"{NAME} of {node}"}
            for node, duration, size in nodes
        ],
        "edges": [{"source": a, "target": b} for a, b in ("xa", "xz", "ab", "bc", "cz")],
        "graph": {"duration_unit": "FLOP", "name": f"network of {NAME}"},
    }
    path.write_text(json.dumps(document))
    return path


def whole(out, *texts):
    assert "\u2026" not in out
    for text in texts:
        assert text in out


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", ["20", "80"])
def test_piped_commands_cut_nothing(command, named, monkeypatch, tmp_path, columns):
    monkeypatch.setenv("COLUMNS", columns)
    plan, schedule = ("--paging", "--page-out-time", "0.01"), tmp_path / "schedule.json"
    solving = ("--budget", "0.8", "--time-limit", 20, "--search", "only")
    title = f"network of {NAME}: 5 nodes, 5 edges\n"
    status, out, _ = command("solve", named, *solving, "--output", schedule)
    assert status == 0
    whole(out, title, "1,400,000,000,000 FLOP", f"x ({NAME} of x)", "500,000,000,000 FLOP", "1 node recomputed, 6 ")
    whole(command("info", named)[1], f"network of {NAME}\n", f"b ({NAME} of b)", "900,000,000,000 FLOP")
    whole(command("order", named)[1], title, "1,000,000,000,000")
    whole(command("solve", named, *solving, *plan)[1], title, f"x ({NAME} of x)")
    whole(
        command("frontier", named, "--budget", "0.8", "--search", "only", "--time-limit", 20)[1], title, "800,000,000"
    )
    whole(command("complexity", named)[1], f"network of {NAME}: n = 5", "checkmate-milp-strengthened")
    whole(command("compare", named, "--budget", "0.8", "--only", "keep-all")[1], "budget 800,000,000,000 (0.8)")
    whole(command("validate", named, schedule)[1], "duration 1,400,000,000,000 FLOP, budget 800,000,000,000\n")


def test_the_lists_can_be_searched_by_line(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    lines = command("list")[1].splitlines()
    for entry in entries():
        (row,) = (line for line in lines if line.split()[:1] == [entry.name])
        assert entry.title in row and entry.source in row and entry.guarantee in row
    assert len(entries()) > len(strategies())
    networks = command("generate", "network", "--list")[1].splitlines()
    assert any(line.split()[:1] == ["unet"] and "=" in line for line in networks)
