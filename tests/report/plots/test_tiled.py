"""Pictures of tiled graphs: rows are named by layers, and parts have the colour of theirs."""

from __future__ import annotations

import re

import pytest

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.report.plots.interactive import render as page_of
from moccasin_mzn.report.plots.picture import COLOURS, LAYER_COLOURS, PART, Picture
from moccasin_mzn.report.plots.static import figure_of

SHAPE = 6, 4
ROWS = (Reach(0, window=3, before=1), Reach(1))
GRAPH = ComputationGraph(
    nodes=["first", "second"], durations=[24, 24], sizes=[24, 24], edges=[(0, 1)],
    operators=[Operator("conv", SHAPE, (Read(None, SHAPE, ROWS),)), Operator("conv", SHAPE, (Read(0, SHAPE, ROWS),))],
)  # fmt: skip
TILED = tile(GRAPH, rows=2)


@pytest.fixture
def picture() -> Picture:
    return Picture.of_schedule(TILED, (0, 1, 3, 2, 4, 1, 5), TILED.input_order(), 40)


def test_rows_are_layers(picture):
    panel = picture.panels[0]
    assert [(each.name, each.first, each.last) for each in panel.layers] == [("first", 0, 2), ("second", 3, 5)]
    assert picture.title == "graph: 6 parts of 2 layers, 1 recomputation"
    axes = figure_of(picture).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["first", "second"]
    assert axes.get_ylabel() == "parts of layers in input order"


def test_parts_have_colours_of_their_layers(picture):
    panel = picture.panels[0]
    colours = {str(TILED.nodes[bar.node]): picture.colour(panel, bar) for bar in panel.bars if bar.kind != "again"}
    assert colours["first[0:2]"] == colours["first[2:4]"] == LAYER_COLOURS[0]
    assert colours["second[4:6]"] == LAYER_COLOURS[1]
    again = [picture.colour(panel, bar) for bar in panel.bars if bar.kind == "again"]
    assert again == [COLOURS["again"]]
    texts = [text.get_text() for text in figure_of(picture).axes[0].get_legend().get_texts()]
    assert texts == [PART, "recomputed copy", "recomputation"]


def test_the_page_names_layers(picture):
    page = page_of(picture)
    assert PART in page and "6 parts of 2 layers" in page
    assert re.search(r'"names": ?\["first", ?"first", ?"first", ?"second", ?"second", ?"second"\]', page)


def test_layers_whose_parts_are_apart_are_nodes():
    order = (0, 1, 3, 2, 4, 5)
    apart = Picture.of_schedule(TILED, order, order)
    assert apart.panels[0].layers == () and apart.title == "graph: 6 nodes, 0 recomputations"
