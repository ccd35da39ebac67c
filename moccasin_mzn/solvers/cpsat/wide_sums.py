"""What CP-SAT 9.15 gets wrong where numbers are large, and how to keep out of its way."""

from __future__ import annotations

import math
from typing import Any

WIDEST = 2**30
"""Coefficients whose magnitudes add up to no more are safe, also where presolve puts two constraints together."""
_LOST = 2.0**-48
"""Of the magnitude of the objective's terms: more than the few roundings on a bound's way can take."""


def keep_true(parameters: Any, widest: int) -> None:
    """Have CP-SAT not look for at-most-one constraints inside of linear ones if magnitudes of coefficients in one
    constraint add up to `widest`, and that is much: it adds them up in 32 bits, and then drops the condition of a
    constraint, and with it solutions (OR-Tools issue 5293).

    And have it not call optimal what is so but for a gap that it takes in doubles.
    """
    parameters.absolute_gap_limit = 0.0
    if widest > WIDEST:
        parameters.presolve_inclusion_work_limit = 0


def certain_bound(value: float, magnitude: int) -> int | None:
    """The lower bound of an objective in integers that CP-SAT tells as a double; None if there is none yet.

    Presolve shifts the objective, and the shift is undone in doubles: a bound may come out too high by what these lose
    of the shift, that is of `magnitude`, the sum of the magnitudes of the objective's terms.
    """
    if not math.isfinite(value) or abs(value) >= 2**62:
        return None
    magnitude = max(magnitude, math.ceil(abs(value)))
    return math.ceil(value) - math.floor(magnitude * _LOST) if magnitude >= 1 / _LOST else round(value)
