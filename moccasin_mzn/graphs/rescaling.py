"""Durations in other units: operations to nanoseconds of a device, or to what was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.program import DURATION_UNKNOWN
from moccasin_mzn.words import count_text

NANOSECOND = "ns"
_OPERATIONS = ("FLOP", "MAC")
_PREFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_FORM = re.compile(r"(\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?)\s*([kMGTP]?)", re.ASCII)


def parse_peak(text: str) -> Fraction:
    """Operations per second: "19.5T", "312e12", "4000000000".

    Raises:
        InputError: it is none, or not over 0.
    """
    form = _FORM.fullmatch(text.strip())
    if form is None or Fraction(form[1]) <= 0:
        raise InputError(f"peak {shown(text)}: expected operations per second, such as 19.5T or 19.5e12")
    return Fraction(form[1]) * 10 ** _PREFIXES[form[2]]


def scaled(graph: ComputationGraph, peak: Fraction) -> ComputationGraph:
    """The graph with durations in nanoseconds of a device that does `peak` of the graph's operations in a second.

    Rounded up, so that what takes time still does.

    Raises:
        InputError: the graph's durations are no operations (FLOP or MAC), or are too long for a graph.
    """
    if graph.duration_unit not in _OPERATIONS:
        raise InputError(
            f"durations are in {shown(graph.duration_unit)}; only {' and '.join(_OPERATIONS)} can be turned into time"
        )
    durations = tuple(-(-duration * 10**9 * peak.denominator // peak.numerator) for duration in graph.durations)
    return replace(graph, durations=durations, duration_unit=NANOSECOND)


def profiled(graph: ComputationGraph, nanoseconds: Mapping[NodeId, int]) -> ComputationGraph:
    """An imported graph with measured durations; a node of none that was not measured, as it does nothing, has 0.

    Raises:
        InputError: another node was not measured.
    """
    durations = dict(zip(graph.nodes, graph.durations, strict=True))
    missing = [node for node, duration in durations.items() if duration and node not in nanoseconds]
    if missing:
        raise InputError(f"{count_text(len(missing), 'node')} not measured, such as {missing[0]}")
    about = dict(graph.attributes)
    assumed = [line for line in about.pop("assumed", []) if not line.startswith(DURATION_UNKNOWN)]
    return replace(
        graph,
        durations=tuple(nanoseconds.get(node, 0) for node in durations),
        duration_unit=NANOSECOND,
        attributes={**about, **({"assumed": assumed} if assumed else {})},
    )
