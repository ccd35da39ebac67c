"""What the colours of a picture are and mean."""

from __future__ import annotations

KINDS = {
    "only": "computed once",
    "first": "recomputed later: first copy",
    "again": "recomputed copy",
    "copied": "copied from another memory",
}
"""What the colours of bars mean; see `picture.Bar.kind`."""
COLOURS = {"only": "#9DB4C8", "first": "#0072B2", "again": "#D55E00", "copied": "#009E73"}
"""Distinct to the colour-blind (after Okabe and Ito) and in grey."""
BEFORE, AFTER, BUDGET, INK, PALE = "#9A9A9A", "#0072B2", "#000000", "#333333", "#D5E4F0"
MARKS = {"again": ("recomputation", "again"), "in": ("copied in", "copied"), "out": ("copied out", "copied")}
"""What is marked, see `picture.Panel.marks`: in words, and the kind whose colour it has."""
