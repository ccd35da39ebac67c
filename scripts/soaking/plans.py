"""The two memories of a command line, for the exact oracle of plans (`soaking.exact_plans`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph
from soaking.exact_plans import Machine


def machine_of_options(graph: ComputationGraph, options: dict[str, Any]) -> tuple[tuple[str, str], Machine]:
    """The names of the memories that the options of a command line mean, and what happens in them."""
    if "paging" in options:
        out, back = (_scaled(graph.sizes, options[f"page-{way}-time"]) for way in ("out", "in"))
        budgets = [int(options["budget"]), int(options.get("slow-memory", sum(graph.sizes)))]
        return ("local", "slow"), Machine(budgets, [_scaled(graph.durations), None], {(0, 1): out, (1, 0): back})
    described = [part.partition("=")[2].partition(":") for part in options["device"].split(" ")]
    budgets = [int(amount) for amount, _, _ in described]
    compute = [None if slow == "inf" else _scaled(graph.durations, slow or "1") for _, _, slow in described]
    copies = _scaled(graph.sizes, options["copy-time"], int(options.get("copy-latency", 0)))
    return ("gpu", "cpu"), Machine(budgets, compute, {(0, 1): copies, (1, 0): copies})


def _scaled(amounts: Sequence[int], factor: str = "1", fixed: int = 0) -> list[tuple[int, int]]:
    """Durations, and no energy."""
    return [(fixed + ceil(amount * Fraction(factor)), 0) for amount in amounts]
