"""A fault of CP-SAT 9.15 with wide sums, and how to keep out of its way."""

from __future__ import annotations

from typing import Any

WIDEST = 2**30
"""Coefficients whose magnitudes add up to no more are safe, also where presolve puts two constraints together."""


def keep_true(parameters: Any, widest: int) -> None:
    """Have CP-SAT not look for at-most-one constraints inside of linear ones if magnitudes of coefficients in one
    constraint add up to `widest`, and that is much: it adds them up in 32 bits, and then drops the condition of a
    constraint, and with it solutions (OR-Tools issue 5293)."""
    if widest > WIDEST:
        parameters.presolve_inclusion_work_limit = 0
