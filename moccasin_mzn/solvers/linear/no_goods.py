"""Programs without the solutions that are known already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from moccasin_mzn.solvers.linear.items import LinearItem
from moccasin_mzn.solvers.linear.program import LinearProgram


class NoGoods:
    """A program, and rows that demand that what is printed differs from each known solution.

    For a known value v of a column x with bounds l..u, two 0-1 columns say that it is less or greater, and one row for
    each solution demands that some column differs:

        less = 1     ->  x <= v - 1          x + (u - v + 1) less <= u
        greater = 1  ->  x >= v + 1          x - (v - l + 1) greater >= l

    A 0-1 column needs no others: it differs by itself.
    """

    def __init__(self, program: LinearProgram, items: Sequence[LinearItem]) -> None:
        self._program = program
        self._printed = sorted({column for item in items for column in item.columns if column >= 0})
        self._added = 0
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def add(self, values: np.ndarray) -> str | None:
        """Exclude a solution; if that cannot be said, why not."""
        program, terms, least = self._program, {}, 1.0
        for column in self._printed:
            low, high, value = program.lower[column], program.upper[column], values[column]
            if not program.is_integer[column]:
                return f"{program.names[column]} is a float"
            if not (np.isfinite(low) and np.isfinite(high)):
                return f"{program.names[column]} is not bounded"
            if (low, high) == (0, 1):
                terms[column] = 1.0 - 2.0 * value
                least -= value
                continue
            if value > low:
                less = self._column()
                terms[less] = 1.0
                self._rows.append(({column: 1.0, less: high - value + 1}, -np.inf, high))
            if value < high:
                greater = self._column()
                terms[greater] = 1.0
                self._rows.append(({column: 1.0, greater: low - value - 1}, low, np.inf))
        self._rows.append((terms, least, np.inf))
        return None

    def _column(self) -> int:
        self._added += 1
        return self._program.columns + self._added - 1

    def extended(self) -> LinearProgram:
        """The program with all that was added."""
        program, count = self._program, self._added
        columns = [column for terms, _, _ in self._rows for column in sorted(terms)]
        coefficients = [terms[column] for terms, _, _ in self._rows for column in sorted(terms)]
        ends = program.row_start[-1] + np.cumsum([len(terms) for terms, _, _ in self._rows], dtype=np.int64)
        return replace(
            program,
            names=(*program.names, *(f"differs {index}" for index in range(count))),
            lower=np.append(program.lower, np.zeros(count)),
            upper=np.append(program.upper, np.ones(count)),
            is_integer=np.append(program.is_integer, np.ones(count, dtype=bool)),
            objective=np.append(program.objective, np.zeros(count)),
            row_start=np.append(program.row_start, ends),
            row_column=np.append(program.row_column, np.array(columns, dtype=np.int32)),
            row_coefficient=np.append(program.row_coefficient, coefficients),
            row_lower=np.append(program.row_lower, [low for _, low, _ in self._rows]),
            row_upper=np.append(program.row_upper, [high for _, _, high in self._rows]),
        )
