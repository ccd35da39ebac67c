"""Random schedules to draw, and what the files say is drawn."""

from __future__ import annotations

import json
import random
import re
from xml.etree import ElementTree

from cases import draw_case
from hypothesis import Phase

from moccasin_mzn.report.plots.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""Where an example takes a good part of a second."""
KINDS = ("only", "first", "again")


def random_schedule(order: tuple[int, ...], recomputations: int, seed: int) -> tuple[int, ...]:
    """The input order with so many recomputations put in anywhere: all that they read is computed before."""
    rng, sequence = random.Random(seed), list(order)
    for _ in range(recomputations):
        at = rng.randint(1, len(sequence))
        sequence.insert(at, rng.choice(sequence[:at]))
    return tuple(sequence)


def random_picture(seed: int, recomputations: int, by: str, **options) -> Picture:
    """A small random graph with such a schedule."""
    graph = draw_case(seed).graph
    order = graph.input_order()
    return Picture.of_schedule(graph, random_schedule(order, recomputations, seed), order, by=by, **options)


def sequence_of(picture: Picture) -> tuple[int, ...]:
    """The nodes of a picture's schedule."""
    return tuple(action.node for action in picture.plan)


def groups(svg: bytes) -> dict[str, ElementTree.Element]:
    """The groups of an SVG by their ids."""
    return {group.get("id"): group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("id")}


def corners(group: ElementTree.Element | None) -> list[list[tuple[float, float]]]:
    """The points of each path of a group."""
    paths = [] if group is None else [path.get("d") for path in group.iter(f"{SVG}path")]
    return [[tuple(map(float, point.split()[-2:])) for point in re.findall(r"[ML] [^MLz]+", path)] for path in paths]


def colours(page: str) -> set[str]:
    """All colours of the figure of a page."""
    return set(re.findall(r"#[0-9A-Fa-f]{3,8}\b", json.dumps(figure(page))))


def figure(page: str) -> tuple[list[dict], dict]:
    """The traces and the layout that a page hands to plotly."""
    rest = page[re.search(r'Plotly\.newPlot\(\s*"figure",\s*', page).end() :]
    traces, end = json.JSONDecoder().raw_decode(rest)
    layout, _ = json.JSONDecoder().raw_decode(rest[end:].lstrip(", \n"))
    return traces, layout
