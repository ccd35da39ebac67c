"""Problems on tiled graphs: parts that are asked for, or that are chosen for a budget."""

from __future__ import annotations

import re

import pytest

import moccasin_mzn as mz
from moccasin_mzn.api.request import prepared
from moccasin_mzn.api.tiling import Tiles, tiled, tiling_text
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.choosing import tilings
from moccasin_mzn.graphs.tiling.cutting import cut, tile

LAYERS = ((4, 1), (8, 1), (8, 2), (2, 1))
"""Channels and stride of each."""


def image_network(side: int = 16) -> mz.ComputationGraph:
    """Convolutions of three rows and columns, and at the end one number for each channel."""
    operators: list[Operator] = []
    shape = side, side, 3
    for at, (channels, stride) in enumerate(LAYERS):
        windows = [Reach(axis, stride, 3, before=1) for axis in (0, 1)]
        made = shape[0] // stride, shape[1] // stride, channels
        operators.append(Operator("conv", made, (Read(at - 1 if at else None, shape, (*windows, None)),)))
        shape = made
    operators.append(Operator("mean", (2,), (Read(len(LAYERS) - 1, shape, (None, None, Reach(0))),), accumulator=4))
    sizes = [each.elements for each in operators]
    return mz.ComputationGraph(
        nodes=[f"layer{at}" for at in range(len(sizes))], durations=[9 * size for size in sizes], sizes=sizes,
        edges=[(at, at + 1) for at in range(len(sizes) - 1)], operators=operators, size_unit="byte",
    )  # fmt: skip


GRAPH = image_network()
WHOLE = max(GRAPH.working_sets)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("auto", Tiles()), (4, Tiles(4)), ("4", Tiles(4)), ("4x16", Tiles(4, 16)), ((4, 16), Tiles(4, 16)),
        ([2, 3], Tiles(2, 3)),
    ],
)  # fmt: skip
def test_tiles_are_read(given, expected):
    assert Tiles.of(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "4x",
        "x4",
        "0",
        0,
        -1,
        1.5,
        "four",
        (1, 2, 3),
        "4x4x4",
        None,
        True,
        "4x0",
        "0x4",
        (4, 0),
        (0, 4),
        (4, "x"),
        (True, 2),
    ],
)
def test_nonsense_as_tiles_is_refused(given):
    with pytest.raises(mz.InputError, match=f"^tile {re.escape(repr(given))}: .*expected "):
        Tiles.of(given)


def test_tilings_get_finer_and_leave_small_layers_whole():
    counts, last = [], 0
    for cuts in tilings(GRAPH, WHOLE):
        parts = cut(GRAPH, cuts)
        counts.append(len(parts.nodes))
        last = max(parts.working_sets)
    assert counts == sorted(set(counts)) and len(counts) > 3
    assert last < WHOLE / 8
    first = cut(GRAPH, next(tilings(GRAPH, 4 * WHOLE)))
    assert first.parts is None and len(first.nodes) == len(GRAPH.nodes)


def test_solve_in_parts_takes_less_than_the_largest_layer():
    result = mz.solve(GRAPH, WHOLE // 3, tile="auto", time_limit=10)
    assert result.valid and result.peak <= WHOLE // 3 and result.duration == GRAPH.total_duration
    assert result.graph.parts is not None
    assert result.notes[0].startswith("tiling: ") and result.notes[0].endswith("nodes in total")
    assert mz.validate(result.graph, result.sequence, budget=WHOLE // 3).valid


def test_solve_with_given_rows():
    result = mz.solve(GRAPH, 0.5, tile=(2, 8), time_limit=5)
    assert result.graph == tile(GRAPH, rows=2, columns=8)
    assert result.budget == -(-mz.solve(GRAPH, 1.0, strategy="keep-all").peak // 2)


def test_whole_layers_where_the_budget_is_enough():
    result = mz.solve(GRAPH, 1.0, tile="auto", time_limit=5)
    assert result.valid and len(result.graph.nodes) < 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "keep-all"}, "^tile is for one memory and for searches"),
        ({"paging": {"out_time": 1}}, "^tile is for one memory and for searches"),
        ({"order": "topological"}, "^tile: parts are computed in any order"),
        ({"tile": "thin"}, "^tile 'thin': expected auto"),
    ],
)
def test_what_does_not_go_with_tile(arguments, message):
    with pytest.raises(mz.InputError, match=message):
        mz.solve(GRAPH, 0.5, **{"tile": 4, **arguments})


def test_every_graph_that_is_asked_about_is_made_by_what_cuts():
    """Also where no tiling is enough for the budget: whoever cuts knows what he made."""
    made = []

    def cutting(graph, cuts):
        made.append(cut(graph, cuts))
        return made[-1]

    prepare = tiled(prepared({"time_limit": 1.0}), Tiles(), lambda note: None, cutting=cutting)
    for budget in (1, WHOLE // 3):
        graph = prepare(GRAPH, budget, "free", False).problem.graph
        assert any(graph is each for each in made)


def test_tiling_in_a_line():
    assert tiling_text(GRAPH, GRAPH) == "tiling: no layer is cut"
    assert tiling_text(GRAPH, tile(GRAPH, rows=8, layers=["layer0"])) == (
        "tiling: 1 of 5 layers cut into 2 parts, 6 nodes in total"
    )


def test_the_command_writes_the_graph_of_parts(command, tmp_path):
    layers, parts, schedule = (tmp_path / f"{name}.json" for name in ("layers", "parts", "schedule"))
    mz.write_graph(GRAPH, layers)
    status, _, err = command(
        "solve", layers, "--budget", WHOLE // 2, "--tile", "2", "--tiled", parts, "-o", schedule, "--time-limit", "5"
    )
    assert status == 0 and "tiling: 5 of 5 layers cut into" in err
    assert command("validate", parts, schedule, "--budget", WHOLE // 2)[0] == 0
    status, _, err = command("tile", layers, "--rows", "4", "--layers", "layer[01]", "-o", parts)
    assert status == 0 and "2 of 5 layers cut, 11 nodes" in err
    assert command("tile", layers, "--tiles", "4", "-o", parts)[0] == 2
    assert command("solve", layers, "--budget", "0.5", "--tiled", parts)[0] == 2
