"""Published figures beside the problems they are about."""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.bench.compare import Published

FAMILY_TITLES = {"moccasin": "MOCCASIN", "checkmate": "Checkmate", "rounding": "Checkmate, LP rounding"}
"""How the columns of a table of published figures are called; a family that is not here keeps its name."""
_BYTES = {"GiB": 2**30, "MiB": 2**20}


def families_of(lines: Sequence[Published | None]) -> tuple[str, ...]:
    """The families with a figure in one of the lines, in the order of the known ones."""
    found = {name for line in lines if line for name, figures in line.figures.items() if any(figures)}
    known = [name for name in FAMILY_TITLES if name in found]
    return (*known, *sorted(found - set(known)))


def memory_step(line: Published | None) -> tuple[int, str]:
    """The unit in which a line prints peaks, as an amount and a name; 1 and empty: the graph's own."""
    peaks = [figures[1] for figures in line.figures.values()] if line else []
    for peak in peaks:
        _, _, unit = peak.partition(" ")
        if unit in _BYTES:
            return _BYTES[unit], unit
    return 1, ""


def number_of(text: str) -> float | None:
    """A printed figure as a number; None where there is none."""
    try:
        return float(text)
    except ValueError:
        return None
