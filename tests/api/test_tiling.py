"""Problems on tiled graphs: parts that are asked for, or that are chosen for a budget."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from cases import MODELS
from few import few

import moccasin_mzn as mz
from moccasin_mzn.api.least import smallest
from moccasin_mzn.api.question import Question
from moccasin_mzn.api.tile_trials import Maker, Trial, chosen
from moccasin_mzn.api.tiling import Target, Tiles, tiling_text
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.choosing import MANY_NODES, candidates, needed_in_any_parts, tilings
from moccasin_mzn.graphs.tiling.cutting import cut, tile
from moccasin_mzn.problem.judges.schedules import simulate

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

    for budget in (1, WHOLE // 3):
        question = Question(budget, tile="auto", how={"time_limit": 1.0})
        graph = question.request(GRAPH, target=Target(cutting)).problem.graph
        assert any(graph is each for each in made)


def whole_input(side: int = 16) -> mz.ComputationGraph:
    """The network with its input in the graph, which is never cut."""
    operators = [
        None,
        *(
            replace(of, reads=tuple(replace(read, source=(read.source or 0) + 1 if at else 0) for read in of.reads))
            for at, of in enumerate(GRAPH.operators)
        ),
    ]
    sizes = [side * side * 3, *GRAPH.sizes]
    return mz.ComputationGraph(
        nodes=["input", *GRAPH.nodes], durations=[0, *GRAPH.durations], sizes=sizes, operators=operators,
        edges=[(at, at + 1) for at in range(len(sizes) - 1)], computed_once=[0], size_unit="byte",
    )  # fmt: skip


@pytest.mark.parametrize("budget", [1, 16 * 16 * 3 - 1, 16 * 16 * 3])
def test_what_no_parts_make_smaller_is_said_without_making_any(budget):
    notes, made = [], []

    def cutting(graph, cuts):
        made.append(cuts)
        return cut(graph, cuts)

    graph = whole_input()
    question = Question(budget, tile="auto", how={"time_limit": 5.0})
    request = question.request(graph, notes.append, target=Target(cutting))
    assert made == [{}] and request.problem.graph.parts is None
    assert notes == [notes[0]] and re.fullmatch(
        r"tiling: no layer is cut: node layer0 needs .* whatever the parts, .* over the budget .*", notes[0]
    )


def test_what_no_parts_make_smaller_is_a_bound_for_all_parts():
    for graph in (GRAPH, whole_input()):
        need = needed_in_any_parts(graph)
        least = min(max(cut(graph, cuts).working_sets) for cuts in candidates(graph, None))
        assert 0 < need.memory <= least
    assert needed_in_any_parts(whole_input()).memory > 16 * 16 * 3
    assert needed_in_any_parts(GRAPH, range(len(GRAPH.nodes))).memory == WHOLE


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.5, 0.35, 0.25])
def test_auto_is_never_worse_than_given_parts(share):
    budget = int(share * WHOLE)
    found = mz.solve(GRAPH, budget, tile="auto", time_limit=4, seed=0)
    assert found.valid and found.duration == GRAPH.total_duration


@pytest.mark.full
def test_the_least_budget_in_parts_is_never_worse_than_given_parts():
    auto = mz.solve(GRAPH, "least", tile="auto", time_limit=4, seed=0)
    assert all(auto.peak <= mz.solve(GRAPH, "least", tile=rows, time_limit=1, seed=0).peak for rows in (2, 8))


@pytest.mark.parametrize("name", ["mcunetv2-patches", "msf-cnn-fusion", "keep-all", "recompute-all", "dtr"])
@pytest.mark.parametrize("budget", [0.6, WHOLE // 3])
def test_strategies_take_parts_layer_by_layer(name, budget):
    layers = chain()
    found = mz.solve(layers, budget, tile=4, strategy=name)
    parts = tile(layers, rows=4)
    least = budget if isinstance(budget, int) else -(-6 * simulate(layers, layers.input_order()).peak // 10)
    assert found.graph == parts and found.budget == least
    assert found.sequence == mz.solve(parts, least, strategy=name).sequence
    assert found.valid == (found.peak is not None and found.peak <= least)


def test_models_of_ones_own_take_parts_layer_by_layer(tmp_path):
    model = tmp_path / "own.mzn"
    model.write_text(f'include "{MODELS}/staged.mzn";\n')
    small = image_network(8)
    found = mz.solve(small, 0.75, tile=2, model=str(model), time_limit=60)
    assert found.graph == tile(small, rows=2) and found.budget == 576  # of 768 for whole layers
    same = mz.solve(found.graph, 576, time_limit=60)
    assert (found.status, found.duration) == (same.status, same.duration) == ("optimal", 10674)


@pytest.mark.parametrize("how", [{"strategy": "keep-all"}, {"model": "own.mzn"}])
def test_parts_that_are_chosen_are_for_searches(how, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.mzn").write_text('include "staged.mzn";\n')
    with pytest.raises(mz.InputError, match="^tile auto is for searches in any order, within one budget: "):
        mz.solve(GRAPH, 0.6, tile="auto", **how)


def chain() -> mz.ComputationGraph:
    """The network without the numbers at its end, which some strategies know nothing of."""
    kept = len(LAYERS)
    return mz.ComputationGraph(
        nodes=GRAPH.nodes[:kept], durations=GRAPH.durations[:kept], sizes=GRAPH.sizes[:kept], size_unit="byte",
        edges=[edge for edge in GRAPH.edges if max(edge) < kept], operators=GRAPH.operators[:kept],
    )  # fmt: skip


def test_more_parts_than_can_be_made_are_refused():
    graph = image_network(200)
    with pytest.raises(mz.InputError, match=r"tile: these are some [\d,]+ parts, more than 20,000: give more rows"):
        mz.solve(graph, "100%", tile=(1, 1), time_limit=1)


def test_outputs_of_one_operation_come_together_in_what_is_tried():
    """A start has each further output directly after the first one of its operation."""
    graph = mz.ComputationGraph(
        nodes=["a", "b", "c", "d"], durations=[1, 0, 1, 1], sizes=[2, 3, 4, 1], edges=[(0, 2), (1, 3), (2, 3)],
        output_of=[None, 0, None, None],
    )  # fmt: skip
    trial = Trial(Question("100%", order="free", how={"time_limit": 1}).request(graph))
    trial.judge((0, 2, 1, 3))
    assert trial.best == (0, 1, 2, 3)


def test_a_tiling_that_would_take_too_long_is_not_made():
    """The clock is one of work: making a node is said to take a second."""
    made = []

    def slow(cuts):
        made.append(cuts)
        return cut(GRAPH, cuts)

    tilings = candidates(GRAPH, WHOLE // 4)
    maker = Maker(slow, lambda cuts: 1000, Deadline(10.0), seconds=1.0)
    assert len(list(maker.made(tilings, lambda: False))) == len(made) == 1  # one is made, whatever the limit
    made.clear()
    different = {cut(GRAPH, cuts).nodes for cuts in tilings}
    assert len(list(Maker(slow, lambda cuts: 1, Deadline(None)).made(tilings, lambda: False))) == len(different)


@pytest.mark.parametrize("side", few([16, 13, 21, 24, 2, 9], keep=2))
def test_tilings_are_tried_from_fine_to_coarse_and_are_all_of_few_rows(side):
    graph = image_network(side)
    budget = max(graph.working_sets) // 4
    counts = [len(cut(graph, cuts).nodes) for cuts in candidates(graph, budget)]
    ordered = [count for count in counts if count <= MANY_NODES]
    assert ordered == sorted(ordered, reverse=True)
    coarse = [cut(graph, cuts) for cuts in candidates(graph, budget, coarse_first=True)]
    assert [len(each.nodes) for each in coarse] == sorted(len(each.nodes) for each in coarse)
    fine = {cut(graph, cuts).nodes for cuts in candidates(graph, budget)}
    for rows in range(1, side):
        parts = tile(graph, rows=rows)
        assert parts.nodes in {each.nodes for each in coarse} and (rows > 8 or parts.nodes in fine)


@pytest.mark.parametrize("side", few([21, 16, 13, 24], keep=1))
@pytest.mark.parametrize("share", few([0.4, 0.6, 0.5, 0.3, 0.25], keep=1))
def test_auto_is_never_worse_than_given_parts_in_the_same_work(side, share):
    """Each tiling has one turn of the same plans: no parts of 1 to 8 rows do better than the ones that are chosen."""
    graph = image_network(side)
    budget, ended = int(share * max(graph.working_sets)), []
    request = Question(budget, "auto", "free").request

    def requests():
        for cuts in candidates(graph, budget):
            parts = cut(graph, cuts)
            if max(parts.working_sets) <= budget:
                yield request(parts)
        ended.append(True)

    auto = chosen(requests(), Deadline(None), lambda: bool(ended))
    for rows in range(1, 9):
        parts = tile(graph, rows=rows)
        if max(parts.working_sets) <= budget:
            (given := Trial(request(parts))).turn(lambda: False)
            assert auto[0].rank <= given.rank


@pytest.mark.parametrize(("shape", "asked", "reason"), [
    ((2, 8, 8, 3), {0: {1: (0, 4, 8)}}, ": these are batches of 2 images, of which this target computes parts only"),
    ((1, 8, 8, 3), {0: {1: (0, 4, 8)}}, ": this target has no parts of a, or they would take no less memory"),
    ((1, 8, 8, 3), {}, ": whole layers are enough for the budget"),
    ((1, 8, 8, 3), {0: {1: (0, 8)}}, ": there is nothing to cut them along"),
])  # fmt: skip
def test_why_no_layer_is_cut(shape, asked, reason):
    graph = mz.ComputationGraph(
        nodes=["a"], durations=[1], sizes=[4], edges=[], operators=[Operator("conv", shape)], size_unit="byte"
    )
    assert tiling_text(graph, graph, asked).startswith(f"tiling: no layer is cut{reason}")


def test_tiling_in_a_line_where_parts_are_merged():
    merged = mz.ComputationGraph(nodes=range(20), durations=[1] * 20, sizes=[1] * 20, edges=[])
    assert tiling_text(GRAPH, merged) == "tiling: layers are cut, 20 nodes in total where parts are merged"


@pytest.mark.parametrize(("shape", "parts"), [
    ((1, 1, 64, 6), 4), ((1, 64, 1, 6), 64), ((1, 8, 16, 6), 8), ((1, 64, 6), 64),
])  # fmt: skip
def test_tiles_of_an_image_of_one_row_are_columns(shape, parts):
    """1x16: one row, 16 columns."""
    windows = [1 + 2 * (extent > 1 and axis + 1 < len(shape)) for axis, extent in enumerate(shape)]
    of = Operator("conv", shape, (Read(None, shape, tuple(Reach(axis, window=by) for axis, by in enumerate(windows))),))
    graph = mz.ComputationGraph(nodes=["a"], durations=[1], sizes=[of.elements], edges=[], operators=[of])
    assert len(tile(graph, rows=1, columns=16).nodes) == parts


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


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


def interrupted_once():
    """A function `stop` in which an interrupt comes, the first time that it is asked."""
    asked: list[bool] = []

    def stop():
        asked.append(True)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return len(asked) > 50

    return stop


@pytest.mark.parametrize("turns", [1, 3])
def test_an_interrupt_while_an_order_is_sought_ends_the_trials(turns):
    """It ended that search alone, and the trials went on."""
    graph = tile(image_network(32), 4)
    requests = (Question("60%", order="free", how={"time_limit": 60}).request(graph) for _ in range(turns))
    with pytest.raises(KeyboardInterrupt):
        chosen(requests, Deadline(60), interrupted_once())


@pytest.mark.parametrize("asked", [0, 3])
@pytest.mark.parametrize(
    "how", [{"budget": 0.5}, {"budget": "least"}, {"budget": 0.5, "paging": {"out_time": 1}},
            {"memories": {"a": 0.4, "b": "inf:3"}}, {"memories": {"a": "least", "b": "64KiB:3"}}],
)  # fmt: skip
@pytest.mark.few(2)
def test_an_interrupt_ends_the_choice_of_parts_with_the_best_so_far(how, asked, monkeypatch):
    left = iter(range(asked))

    def interrupted(self, *others):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return turn(self, *others)

    turn = Trial.streamed
    monkeypatch.setattr(Trial, "streamed", interrupted)
    found = mz.solve(image_network(16), **how, tile="auto", time_limit=60, search="only", threads=1)
    assert found.status in ("feasible", "optimal", "unknown") and next(left, None) is None
    assert found.notes[0].startswith(("tiling: ", "budget: ")) and found.ended_by != "TimeLimit(60)"


def test_an_interrupt_while_an_order_is_sought_ends_a_counted_search_for_the_least_budget():
    question = Question("100%", order="free", how={"search": "only", "threads": 1, "iterations": 100})
    graph = random_layered(60, 1)
    assert smallest(question.request(graph), 60, interrupted_once()).interrupted
