"""Published figures, and the problems that they are for."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import load_text
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.problem.budget import UNITS

BUDGET_TOLERANCE = 0.005
"""A published budget in GiB with three digits is the one meant if it is this close, as a share."""
_COLUMNS = ("graph", "n", "m", "budget")
_FORM = f"CSV with the columns {', '.join(_COLUMNS)} and, of each family, FAMILY_tdi, FAMILY_peak, FAMILY_seconds"
FAMILY_TITLES = {"moccasin": "MOCCASIN", "checkmate": "Checkmate", "rounding": "Checkmate, LP rounding"}
"""Titles of the families of published figures; other families keep their name."""


_BYTES = {"GiB": 2**30, "MiB": 2**20}


@dataclass(frozen=True)
class Published:
    """A line of the paper's table; figures as printed there, empty where it has none."""

    label: str
    nodes: int
    edges: int
    budget: float
    figures: dict[str, tuple[str, str, str]]
    """TDI in percent, peak and seconds, by family."""

    @property
    def step(self) -> tuple[int, str]:
        """The unit in which peaks are printed, as an amount and a name; 1 and empty: the graph's own."""
        units = (peak.partition(" ")[2] for _, peak, _ in self.figures.values())
        return next(((_BYTES[unit], unit) for unit in units if unit in _BYTES), (1, ""))

    def peak(self, family: str) -> float | None:
        """Return the peak in the graph's size unit; None if none is published."""
        text, _, unit = self.figures.get(family, ("", "", ""))[1].partition(" ")
        value = number_of(text)
        return None if value is None else value * (self.step[0] if unit else 1)


def read_published(path: Path) -> tuple[Published, ...]:
    """Read published figures, see `_FORM`.

    Raises:
        InputError: the file cannot be read, or a column or a number is missing.
    """
    try:
        text = load_text(path)
    except InputError as error:
        raise InputError(f"{error}; expected {_FORM}") from None
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
        columns = rows[0] if rows else []
        families = _families(columns)
        for row in rows[1:]:
            if len(row) != len(columns):
                raise ValueError(f"a line has {count_text(len(row), 'field')}, the header {len(columns)}")
        if len(rows) < 2:
            raise ValueError("there is no line below the header")
        return tuple(_published(dict(zip(columns, row, strict=True)), families) for row in rows[1:])
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path}: no table of published figures: {error}; expected {_FORM}") from None


def _families(columns: Sequence[str]) -> list[str]:
    families = [name.removesuffix("_tdi") for name in columns if name.endswith("_tdi")]
    needed = [*_COLUMNS, *(f"{family}_{figure}" for family in families for figure in ("peak", "seconds"))]
    absent = [name for name in needed if name not in columns]
    if absent or not families:
        raise ValueError(f"the column {absent[0] if absent else 'FAMILY_tdi'} is missing")
    return families


def _published(row: dict[str, str], families: Sequence[str]) -> Published:
    amount, _, unit = row["budget"].strip().partition(" ")
    factor = UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"budget {shown(row['budget'])} has an unknown unit")
    figures = {name: (row[f"{name}_tdi"], row[f"{name}_peak"], row[f"{name}_seconds"]) for name in families}
    return Published(row["graph"], int(row["n"]), int(row["m"]), float(amount) * factor, figures)


def line_for(nodes: int, edges: int, budget: int, published: Sequence[Published]) -> Published | None:
    """Return the published line of a graph with these numbers of nodes and edges and a budget within the tolerance."""
    near = BUDGET_TOLERANCE * budget
    of_graph = (line for line in published if (line.nodes, line.edges) == (nodes, edges))
    return next((line for line in of_graph if abs(line.budget - budget) <= near), None)


def families_of(lines: Sequence[Published | None]) -> tuple[str, ...]:
    """List the families with a figure in one of the lines, known ones first, in the order of `FAMILY_TITLES`."""
    found = {name for line in lines if line for name, figures in line.figures.items() if any(figures)}
    known = [name for name in FAMILY_TITLES if name in found]
    return (*known, *sorted(found - set(known)))


def number_of(text: str) -> float | None:
    """Return a printed figure as a number; None where absent."""
    try:
        return float(text)
    except ValueError:
        return None
