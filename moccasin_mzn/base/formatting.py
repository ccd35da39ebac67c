"""Amounts and counts as text: the same in tables and in messages."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def memory_text(amount: int, unit: str) -> str:
    """Return an amount of memory as text: in binary multiples if it is in bytes, else with thousands separators."""
    if unit != "byte":
        return duration_text(amount, unit)
    for step, name in BYTE_STEPS:
        if abs(amount) >= step:
            return f"{amount / step:,.2f} {name}"
    return f"{amount} B"


def bytes_text(amount: int) -> str:
    """Return bytes as text, in binary multiples."""
    return memory_text(amount, "byte")


def exact_memory_text(amount: int, unit: str) -> str:
    """Return an amount of memory as text to the last byte, for what differs by little."""
    return duration_text(amount, "B" if unit == "byte" else unit)


def duration_text(duration: int, unit: str) -> str:
    """Return a duration as text, with thousands separators and its unit."""
    return f"{duration:,}" + ("" if unit == "unit" else f" {unit}")


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 node", "2 nodes"; `plural` is for plurals that do not end in s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def over_text(amount: int, limit: int, unit: str, what: str = "the budget") -> str:
    """Return the text of how much an amount of memory exceeds a limit, and of the limit."""
    return f"{memory_text(amount - limit, unit)} over {what} {memory_text(limit, unit)}"


_BEGINS, _SIMILAR = 3, 0.6
"""How many first letters in common count more than letters elsewhere, and the least similarity of a suggestion."""


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name most similar to an unknown one, in any case; empty if none is similar.

    A common beginning counts more than as many letters in common elsewhere."""
    folded = name.casefold()

    def similarity(other: str) -> float:
        begins = len(os.path.commonprefix([folded, other.casefold()])) >= _BEGINS
        return difflib.SequenceMatcher(None, folded, other.casefold()).ratio() + (0.2 if begins else 0)

    best = max(known, key=similarity, default="")
    return best if best and similarity(best) >= _SIMILAR else ""


def nearest(name: object, known: Iterable[str], quote: str = "") -> str:
    """Return ", did you mean NAME?" with the closest known name, between two of `quote`; empty if none is similar."""
    best = closest(str(name), known)
    return f", did you mean {quote}{best}{quote}?" if best else ""


def one_of(name: object, known: Iterable[str]) -> str:
    """Return "expected one of ...", with the closest of them to an unknown name, if one is similar."""
    known = list(known)
    return f"expected one of {', '.join(known)}{nearest(name, known)}"
