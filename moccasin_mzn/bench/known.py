"""What runs of a store know of each instance: the best schedule and bound, who has them, and who proved it when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moccasin_mzn.bench.rows import Row, took
from moccasin_mzn.search.board import INSTANT


@dataclass(frozen=True)
class Known:
    """Of one instance, in the graph's duration unit."""

    duration: int | None
    """Of the shortest schedule; None: there is none."""
    found_by: str
    bound: int | None
    """None: nothing is proven."""
    proved_by: str
    """Who proved the bound."""
    infeasible: bool
    """Is it proven that there is no schedule?"""
    seconds: Mapping[str, float | None]
    """To the proof, by method, of its median seed; None: not within its limit."""

    @property
    def proven(self) -> bool:
        """Is no schedule shorter?"""
        return self.duration is not None and self.bound is not None and self.bound >= self.duration


def known_of(rows: Sequence[Row], traces: Mapping[str, Sequence[Row]]) -> Known:
    """What runs on one instance, whose proofs range over the same schedules, know together.

    Args:
        traces: of each run, by key.
    """
    schedules = [row for row in rows if row["valid"] and row["duration"] is not None]
    best = min(schedules, key=lambda row: row["duration"], default=None)
    bounded = [row for row in rows if row["duration_bound"] is not None]
    tight = max(bounded, key=lambda row: row["duration_bound"], default=None)
    duration = None if best is None else best["duration"]
    bound = None if tight is None else tight["duration_bound"]
    instant = tight is not None and bound == tight["baseline_duration"]
    return Known(
        duration, "" if best is None else _who(best, traces, "duration"),
        bound, "" if tight is None else INSTANT if instant else _who(tight, traces, "bound"),
        any(row["status"] == "infeasible" for row in rows), _seconds(rows),
    )  # fmt: skip


def _who(row: Row, traces: Mapping[str, Sequence[Row]], what: str) -> str:
    """Who was the first to have the best duration or bound of a run; its method, where no trace says so."""
    final = row["duration" if what == "duration" else "duration_bound"]
    sources = (point["source"] for point in traces.get(row["key"], ()) if point[what] == final)
    return next(sources, None) or row["method"]


def _seconds(rows: Sequence[Row]) -> dict[str, float | None]:
    found: dict[str, list[float]] = {}
    for row in rows:
        proven = row["status"] in ("optimal", "infeasible")
        found.setdefault(row["method"], []).append(took(row) if proven else float("inf"))
    medians = {method: sorted(all_seeds)[len(all_seeds) // 2] for method, all_seeds in found.items()}
    return {method: None if median == float("inf") else median for method, median in medians.items()}
