"""What plans for several memories, and arenas, came to."""

from __future__ import annotations

import json
from collections import Counter

import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Group, Table
from moccasin_mzn.bench.report.runs import PROOFS, Runs
from moccasin_mzn.bench.report.text import amount, percent


def extension_table(runs: Runs) -> Table | None:
    """A row for the best run of each method on each problem that one has several memories, or arenas, for; None without
    any."""
    frame, order = runs.runs, {method: place for place, method in enumerate(runs.methods)}
    asked = frame[frame["problem"].isin(frame[(frame["extension"] != "") | frame["arena"].notna()]["problem"])]
    ranked = asked.assign(rank=asked["value"].where(asked["found"]), place=asked["method"].map(order))
    best = ranked.sort_values("rank", kind="stable").drop_duplicates(["problem", "method"])
    groups: dict[int, list[tuple[Cell, ...]]] = {}
    for _, run in best.sort_values(["problem", "place"]).iterrows():
        groups.setdefault(int(run["problem"]), []).append(_cells(run))
    if not groups:
        return None
    headings = ("method", "least", "value", "bound", "gap %", "TDI %", "memories: peak / budget", "arena",
                "over the peak %", "actions", "status")  # fmt: skip
    caption = (
        "The best run of each method: what was to be least, its total and what is proven of it. Peaks and budgets are "
        "in the graph's own unit, as arenas are; actions: how often something is computed in a memory, or copied."
    )
    told = tuple(Group(tuple(rows), runs.problems[problem].title) for problem, rows in groups.items())
    return Table("extensions", caption, headings, told, left=frozenset({0, 1, 6, 9, 10}))


def _cells(run: pd.Series) -> tuple[Cell, ...]:
    memories = json.loads(run["memories"] or "{}")
    arenas = {name: (of["arena"], of["peak"]) for name, of in memories.items() if of["arena"] is not None}
    if not memories and run["arena"] == run["arena"]:
        arenas = {"": (int(run["arena"]), int(run["peak"]))}
    over = [percent(100 * (size / peak - 1) if peak else 0.0) for size, peak in arenas.values()]
    figures = [run["tdi_percent"] if run["valid"] else float("nan"), run["gap_percent"]]
    tdi, gap = (percent(value) if value == value else "-" for value in figures)
    value, bound = (amount(run[name] if run[name] == run[name] else None) for name in ("value", "bound"))
    rooms = (f"{name}: {amount(of['peak'])} / {amount(of['budget'])}" for name, of in memories.items())
    sizes = (f"{name}: {amount(size)}" if name else amount(size) for name, (size, _) in arenas.items())
    return (
        Cell(run["method"]), Cell(run["objective"]), Cell(value if run["found"] else "-"), Cell(bound), Cell(gap),
        Cell(tdi), Cell("; ".join(rooms) or "-"), Cell("; ".join(sizes) or "-"), Cell("; ".join(over) or "-"),
        Cell(_actions(run["schedule"])), Cell(run["status"], quiet=run["status"] not in PROOFS),
    )  # fmt: skip


def _actions(text: str) -> str:
    """How often what is done, of a plan in JSON."""
    told: Counter[str] = Counter()
    for action in json.loads(text or "[]"):
        if isinstance(action, dict):
            told[f"in {action['in']}" if "compute" in action else f"{action['from']} to {action['to']}"] += 1
    return ", ".join(f"{count:,} {what}" for what, count in told.items()) or "-"
