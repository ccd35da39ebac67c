"""The figures of a soak as a table."""

from __future__ import annotations

from typing import TextIO

from soaking.trial import Tally

HEADINGS = (
    "graphs", "asked", "how", "order", "formulation", "solver", "models alone", "answers", "bad inputs", "notes",
    "seconds",
)  # fmt: skip


def print_figures(tally: Tally, seconds: float, out: TextIO) -> None:
    """What was done, in Markdown, and every finding."""
    counts = dict(tally.counts)
    rows = [("graphs", counts.pop("graphs", 0)), ("questions", counts.pop("solves", 0))]
    plain = {name: count for name, count in counts.items() if ": " not in name}
    rows += sorted(plain.items())
    for heading in HEADINGS:
        of = {name: count for name, count in counts.items() if name.startswith(f"{heading}: ")}
        rows += sorted(of.items(), key=lambda pair: -pair[1])
    rows += [("oracle: given up", counts.get("oracle: given up", 0))]
    rows += [("findings", len(tally.findings)), ("seconds", round(seconds))]
    width = max(len(name) for name, _ in rows)
    out.write(f"| {'':<{width}} | number |\n| {'-' * width} | ------ |\n")
    for name, number in rows:
        out.write(f"| {name:<{width}} | {number:>6.0f} |\n")
    for finding in tally.findings:
        out.write(f"\nseed {finding.seed}: {finding.message}\n  moccasin-mzn {finding.command}\n")
        out.write(f"  kept in {finding.folder}\n")
    out.flush()
