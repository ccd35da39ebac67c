"""What plans for several memories, and arenas, came to."""

from __future__ import annotations

import json
from collections import Counter

import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Row, Table
from moccasin_mzn.bench.report.runs import PROOFS, Runs
from moccasin_mzn.bench.report.text import amount, percent


def extension_table(runs: Runs) -> Table | None:
    """A row for the best run of each method on each problem that one has several memories, or arenas, for; None without
    any."""
    frame, order = runs.runs, {method: place for place, method in enumerate(runs.methods)}
    asked = frame[frame["problem"].isin(frame[(frame["extension"] != "") | frame["arena"].notna()]["problem"])]
    ranked = asked.assign(rank=asked["value"].where(asked["found"]), place=asked["method"].map(order))
    best = ranked.sort_values("rank", kind="stable").drop_duplicates(["problem", "method"])
    caption = (
        "The best run of each method: what was to be least, its total and what is proven of it. Peaks and budgets are "
        "in the graph's own unit, as arenas are; actions: how often something is computed in a memory, or copied."
    )
    groups = [
        (runs.problems[int(problem)].title, [_cells(run) for _, run in group.iterrows()])
        for problem, group in best.sort_values(["problem", "place"]).groupby("problem")
    ]
    return Table.of("extensions", caption, groups=groups) if groups else None


def _cells(run: pd.Series) -> Row:
    memories = json.loads(run["memories"] or "{}")
    arenas = {name: (of["arena"], of["peak"]) for name, of in memories.items() if of["arena"] is not None}
    if not memories and pd.notna(run["arena"]):
        arenas = {"": (int(run["arena"]), int(run["peak"]))}
    over = [percent(100 * (size / peak - 1) if peak else 0.0) for size, peak in arenas.values()]
    tdi, gap = (percent(run[name]) if pd.notna(run[name]) else "-" for name in ("tdi_percent", "gap_percent"))
    value, bound = (amount(run[name] if pd.notna(run[name]) else None) for name in ("value", "bound"))
    rooms = (f"{name}: {amount(of['peak'])} / {amount(of['budget'])}" for name, of in memories.items())
    sizes = (f"{name}: {amount(size)}" if name else amount(size) for name, (size, _) in arenas.items())
    return {
        "method": run["method"], "least": run["objective"], "value": Cell(value if run["found"] else "-"),
        "bound": Cell(bound), "gap %": Cell(gap), "TDI %": Cell(tdi if run["valid"] else "-"),
        "memories: peak / budget": "; ".join(rooms) or "-", "arena": Cell("; ".join(sizes) or "-"),
        "over the peak %": Cell("; ".join(over) or "-"), "actions": _actions(run["schedule"]),
        "status": Cell(run["status"], quiet=run["status"] not in PROOFS, left=True),
    }  # fmt: skip


def _actions(text: str) -> str:
    told: Counter[str] = Counter()
    for action in json.loads(text or "[]"):
        if isinstance(action, dict):
            told[f"in {action['in']}" if "compute" in action else f"{action['from']} to {action['to']}"] += 1
    return ", ".join(f"{count:,} {what}" for what, count in told.items()) or "-"
