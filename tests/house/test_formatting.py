"""Amounts, counts and nodes in words, and that messages use the same words as tables."""

import re
from dataclasses import replace

import pytest

from moccasin_mzn.base.formatting import count_text, duration_text, exact_memory_text, memory_text, over_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import graph_text, node_text, total_text
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.validate import validate_schedule
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.conclusion import known_at_once
from moccasin_mzn.strategies import find_strategy

MIB = 2**20
GRAPH = ComputationGraph(
    nodes=(0, 1, 2),
    durations=(1_000_000, 2, 3),
    sizes=(512 * MIB, 1024 * MIB, 256 * MIB),
    edges=((0, 1), (1, 2), (0, 2)),
    name="three",
    labels=("conv1", 'wide, "a"', "out\nput"),
    size_unit="byte",
    duration_unit="FLOP",
)


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0, "byte", "0 B"),
        (1023, "byte", "1023 B"),
        (1024, "byte", "1.00 KiB"),
        (1_687_166_976, "byte", "1.57 GiB"),
        (3 * 2**40, "byte", "3.00 TiB"),
        (-3 * MIB, "byte", "-3.00 MiB"),
        (12_345, "unit", "12,345"),
        (12_345, "MB", "12,345 MB"),
    ],
)
def test_amounts_of_memory(amount, unit, text):
    assert memory_text(amount, unit) == text


def test_amounts_show_the_last_byte_where_it_matters():
    assert exact_memory_text(1_687_166_976, "byte") == "1,687,166,976 B"
    assert exact_memory_text(1_687, "unit") == "1,687"
    assert duration_text(1_000_000, "FLOP") == "1,000,000 FLOP"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, ("0 nodes", "0 copies")),
        (1, ("1 node", "1 copy")),
        (2, ("2 nodes", "2 copies")),
        (1000, ("1,000 nodes", "1,000 copies")),
    ],
)
def test_counts_are_singular_or_plural(count, words):
    assert (count_text(count, "node"), count_text(count, "copy", "copies")) == words


def test_totals_have_the_units_of_the_graph():
    told = [total_text(GRAPH, what, 2048) for what in ("duration", "energy", "traffic")]
    assert told == ["2,048 FLOP", "2,048", "2.00 KiB"]


def test_a_node_is_one_line():
    assert [node_text(GRAPH, v) for v in range(3)] == ["0 (conv1)", '1 (wide, "a")', "2 (out\\nput)"]
    assert node_text(replace(GRAPH, labels=None), 2) == "2"
    assert graph_text(GRAPH) == "three: 3 nodes, 3 edges"
    one = ComputationGraph(("a",), (1,), (1,), ())
    assert graph_text(one) == "1 node, 0 edges"


def test_amounts_over_a_limit_are_shown_with_the_excess():
    assert over_text(3 * MIB, 2 * MIB, "byte") == "1.00 MiB over the budget 2.00 MiB"
    assert over_text(8, 5, "unit", "the capacity") == "3 over the capacity 5"


# messages


def messages():
    """One of each kind that has an amount or a node in it, about `GRAPH`."""
    budget = 1100 * MIB
    yield from (v.message for v in judge(GRAPH, (0, 1, 2), budget).violations)
    yield from (v.message for v in judge(GRAPH, (1, 0), budget).violations)
    claims = ClaimedSchedule((0, 1, 2), peak=5 * MIB, duration=7)
    yield from (v.message for v in validate_schedule(GRAPH, claims, None))
    yield known_at_once(Instance.build(GRAPH, budget))[1]
    yield known_at_once(Instance.build(replace(GRAPH, fixed_memory={"weights": MIB}), budget, count_fixed=True))[1]
    yield apply(Instance.build(GRAPH, budget, max_computations="unlimited"), find_strategy("keep-all")).reason


def test_messages_have_units_and_names():
    told = list(messages())
    assert len(told) >= 9
    for message in told:
        for number in re.findall(r"(?<![\w.,#])\d[\d,]{3,}+(?! (?:B|FLOP))", message):
            pytest.fail(f"{number} has no unit: {message}")
        for node in re.findall(r"\bnode (\d+)(?! \()", message):
            pytest.fail(f"node {node} has no name: {message}")
    assert (
        'position 2: memory 1.50 GiB is 436.00 MiB over the budget 1.07 GiB while computing node 1 (wide, "a")' in told
    )
    assert "peak claimed is 5,242,880 B, but the sequence has peak 1,879,048,192 B" in told
    assert "duration claimed is 7 FLOP, but the sequence has duration 1,000,005 FLOP" in told
    assert any(message.endswith("over the budget 1.07 GiB, which fixed memory of 1.00 MiB leaves") for message in told)


def test_amounts_are_shown_once():
    for message in messages():
        assert not re.search(r"(\b[KMGT]iB|\bFLOP|\bB) \1\b", message), message
        assert message.count("budget") <= 1, message
