"""What is in pictures of fronts: groups of an SVG, and what a page hands to plotly."""

from __future__ import annotations

from xml.etree import ElementTree

from drawing import NO_SHRINKING, SVG, figure, groups

__all__ = ["NO_SHRINKING", "figure", "groups", "paths", "uses"]


def uses(group: ElementTree.Element | None) -> int:
    """How many marks there are in a group."""
    return 0 if group is None else len(list(group.iter(f"{SVG}use")))


def paths(group: ElementTree.Element | None) -> list[ElementTree.Element]:
    """The shapes of a group."""
    return [] if group is None else list(group.iter(f"{SVG}path"))
