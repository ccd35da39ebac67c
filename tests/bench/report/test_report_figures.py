"""Which panels the figures of a report have: a row for each graph with several budgets, and growth budget by budget."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from report_frames import frames, row

from moccasin_mzn.api.published import read_published
from moccasin_mzn.bench.experiment import read_experiment
from moccasin_mzn.bench.matrix import load_graphs, matrix
from moccasin_mzn.bench.report.document import Figure
from moccasin_mzn.bench.report.runs import read_runs
from moccasin_mzn.bench.report.sections import document
from moccasin_mzn.bench.report.writing import _settings, draw_page, figure_files
from moccasin_mzn.cli.bench_run import generated
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.judges.schedules import simulate

DATA = Path(__file__).resolve().parents[3] / "data"
PAPER = DATA / "paper"


def figures_of(rows, published=()):
    made = document(read_runs(*frames(rows)), published)
    return {block.name: block for section in made.sections for block in section.blocks if isinstance(block, Figure)}


def runs(nodes, percents, methods=("m",), **more):
    """A run of each method on a graph of so many nodes with each budget, absolute ones of a peak of 200."""
    of = {"nodes": nodes, "baseline_peak": 200, **more}
    return [
        row(method, f"G{nodes}", str(2 * percent), seconds=nodes / 10, budget_amount=2 * percent, **of)
        for percent in percents
        for method in methods
    ]


@pytest.mark.full
def test_graphs_with_three_budgets_or_more_have_a_row_each():
    rows = [run for nodes in (40, 10, 30, 20) for run in runs(nodes, (75, 90, 80, 85))]
    rows += runs(15, (90, 80), ("other", "m")) + runs(25, range(60, 70))
    figures = figures_of(rows)
    grid, rest = figures["progress-4-budgets"], figures["progress"]
    assert [panel.title for panel in grid.panels] == [
        f"G{nodes} ({nodes} nodes), {2 * percent} = {percent}\u00a0%"
        for nodes in (10, 20, 30, 40)
        for percent in (90, 85, 80, 75)
    ]
    assert grid.columns == 4 and [label for label, _ in grid.legend] == ["m"]
    assert len(rest.panels) == 12 and [label for label, _ in rest.legend] == ["m", "other"]
    ((name, contents),) = figure_files(grid, ["svg"])  # all on one page
    assert name == "progress-4-budgets" and contents["svg"].count(b"TDI %") >= 16


def test_growth_is_drawn_for_each_budget_that_three_sizes_have():
    rows = [run for nodes in (10, 20, 40) for run in runs(nodes, (90, 80))] + runs(80, (80, 70)) + runs(40, (70,))
    rows += runs(5, (90,), status="unknown", duration=None)
    growth = figures_of(rows)["growth"]
    assert [panel.title[-16:] for panel in growth.panels] == ["90\u00a0% of the peak", "80\u00a0% of the peak"]
    sizes = [panel.draw.keywords["points"]["m"][0] for panel in growth.panels]
    assert sizes == [[10, 20, 40], [10, 20, 40, 80]]
    laws = [panel.draw.keywords["laws"]["m"].exponent for panel in growth.panels]
    assert laws == pytest.approx([1, 1])


def test_growth_of_few_sizes_is_drawn_for_all_budgets_together():
    growth = figures_of(runs(10, (90, 80)) + runs(20, (90, 70)))["growth"]
    assert [panel.title for panel in growth.panels] == ["time to the best schedule, all budgets"]
    assert growth.panels[0].draw.keywords["points"]["m"][0] == [10, 10, 20, 20]


@pytest.mark.full
def test_the_papers_experiment_has_its_sixteen_panels_and_its_table():
    experiment = read_experiment(DATA / "experiments" / "paper.toml")
    graphs = load_graphs(experiment, DATA / "experiments", (), generated, pytest.fail)
    rows = [run.row | {"status": "feasible", "valid": True, "duration": 1, "seconds": 1.0} for run in
            matrix(experiment, graphs) if run.row["method"] == "moccasin"]  # fmt: skip
    published = read_published(PAPER / "published.csv")
    figures = figures_of(rows, published)
    shares = [panel.title.partition("= ")[2] for panel in figures["progress-4-budgets"].panels]
    assert shares == [f"{share}\u00a0%" for share in (90, 85, 80, 75, 90, 85, 80, 76, *(90, 85, 80, 75) * 2)]
    assert figures["growth"].panels[0].title.endswith("90\u00a0% of the peak")
    assert len(figures["growth"].panels[0].draw.keywords["points"]["moccasin"][0]) == 12
    (_, nodes, _), *_ = figures["growth"].panels[0].draw.keywords["published"]
    assert nodes == [73, 100, 250, 353, 500, 1000]


# the paper's graphs


def test_the_papers_graphs_are_those_of_its_table():
    with (PAPER / "published.csv").open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["graph"][:2] != "RW"]
    graphs = [read_graph(path) for path in sorted(PAPER.glob("*.json"))]
    found = {(str(len(graph.nodes)), str(len(graph.edges))): graph for graph in graphs}
    for at, line in enumerate(lines):
        graph = found[line["n"], line["m"]]
        budget = (9, 8)[at % 2] * simulate(graph, graph.input_order()).peak
        amount, _, unit = line["budget"].partition(" ")
        exact = f"{budget / 10 / 2**30:.3g}" if unit else str(budget // 10)
        assert float(amount) == float(exact), line["graph"]


def test_the_papers_graphs_are_as_published(shared):
    paths = sorted(PAPER.glob("*.json"))
    assert len(paths) == 8
    for path in paths:
        assert read_graph(path) == read_graph(shared / "data" / path.name)
    assert (PAPER / "published.csv").read_bytes() == (shared / "data" / "published.csv").read_bytes()


@pytest.mark.parametrize(("panels", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (9, (3, 3))])
def test_panels_fill_their_rows_and_nothing_is_cut_off_or_covered(panels, shape):
    rows = [row(method, f"a graph with a long name {n}", "0.8", nodes=10 + n) for n in range(panels)
            for method in ("one", "another method with a long name")]  # fmt: skip
    figure = figures_of(rows)["progress"]
    with _settings():
        drawn = draw_page(figure, figure.panels)
        drawn.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in drawn.axes]
    assert (len({round(box.y0) for box in boxes}), len({round(box.x0) for box in boxes})) == shape
    (legend,) = drawn.legends
    own = legend.get_window_extent()
    assert own.x0 >= 0 and own.x1 <= drawn.bbox.x1 and own.y1 < min(box.y0 for box in boxes)
    across = drawn.bbox.width / shape[1]
    for axes in drawn.axes:
        title = next(text for text in (axes.title, axes._left_title) if text.get_text()).get_window_extent()
        assert title.x1 <= (axes.get_window_extent().x0 // across + 1) * across + 1
    marks = [(mark.color, tuple(mark.dashes), mark.marker) for _, mark in figure.legend]
    assert len({color for color, *_ in marks}) == len(marks)
