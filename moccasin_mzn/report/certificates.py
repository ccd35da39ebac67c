"""What a certificate proves, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from moccasin_mzn.formatting import count_text, duration_text, memory_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificates import Proven


def certificate_lines(graph: ComputationGraph, proven: Proven) -> Iterator[str]:
    """The schedule, what is proven, and what is taken on trust, in a line each."""
    least = graph.total_duration
    budget = f"budget {memory_text(proven.budget, graph.size_unit)}"
    if proven.duration is not None:
        duration = duration_text(proven.duration, graph.duration_unit)
        yield f"schedule: duration {duration}, {_percent(proven.duration - least, least)} more, within the {budget}"
    cases = f"{count_text(proven.inequalities, 'inequality', 'inequalities')}, {count_text(proven.leaves, 'case')}"
    yield f"proven: {_claim(graph, proven, budget)}, {proven.scope} ({cases})"
    for one in proven.trusted:
        if one.bound is None:
            yield f"trusted: {one.by}: no schedule fits, {one.scope}"
        else:
            bound = duration_text(one.bound, graph.duration_unit)
            yield f"trusted: {one.by}: no schedule is shorter than {bound}, {one.scope}"


def proven_dict(graph: ComputationGraph, proven: Proven) -> dict[str, Any]:
    """The same as JSON."""
    trusted = [vars(one) for one in proven.trusted]
    return {
        **vars(proven),
        "trusted": trusted,
        "gap_percent": _gap(proven),
        "certified": _share(graph, proven),
    }


def _claim(graph: ComputationGraph, proven: Proven, budget: str) -> str:
    if proven.bound is None:
        return f"infeasible: no schedule fits the {budget}"
    if proven.bound == proven.duration:
        return "optimal: no schedule is shorter"
    bound = duration_text(proven.bound, graph.duration_unit)
    if proven.duration is None:
        return f"no schedule within the {budget} is shorter than {bound}"
    share = math.floor(10_000 * (_share(graph, proven) or 0.0)) / 100  # 100 only where it is all
    return f"no schedule is shorter than {bound}: gap {_gap(proven):.3g} %, {share:.2f} % of what recomputation adds"


def _gap(proven: Proven) -> float | None:
    """As in `Result`."""
    if proven.duration is None or proven.bound is None:
        return None
    return 100 * (proven.duration - proven.bound) / proven.duration if proven.duration else 0.0


def _share(graph: ComputationGraph, proven: Proven) -> float | None:
    """The part of what the schedule adds to every node once that is proven to be needed."""
    if proven.duration is None or proven.bound is None:
        return None
    added = proven.duration - graph.total_duration
    return (proven.bound - graph.total_duration) / added if added else 1.0


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0.0:.4f} %"
