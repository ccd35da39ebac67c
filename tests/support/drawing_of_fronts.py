"""What is in pictures of fronts: groups of an SVG, and what a page hands to plotly."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from hypothesis import Phase

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""Where an example takes a good part of a second."""
SVG = "{http://www.w3.org/2000/svg}"


def groups(svg: bytes) -> dict[str, ElementTree.Element]:
    """The groups of an SVG by their ids."""
    return {group.get("id"): group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("id")}


def uses(group: ElementTree.Element | None) -> int:
    """How many marks there are in a group."""
    return 0 if group is None else len(list(group.iter(f"{SVG}use")))


def paths(group: ElementTree.Element | None) -> list[ElementTree.Element]:
    """The shapes of a group."""
    return [] if group is None else list(group.iter(f"{SVG}path"))


def figure(page: str) -> tuple[list[dict], dict]:
    """The traces and the layout that a page hands to plotly."""
    rest = page[re.search(r'Plotly\.newPlot\(\s*"figure",\s*', page).end() :]
    traces, end = json.JSONDecoder().raw_decode(rest)
    layout, _ = json.JSONDecoder().raw_decode(rest[end:].lstrip(", \n"))
    return traces, layout
