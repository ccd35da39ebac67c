"""Stages of an order, and where a sequence leaves them."""

from __future__ import annotations

from collections.abc import Sequence


def first_out_of_stage(order: Sequence[int], sequence: Sequence[int]) -> int | None:
    """The first position, from 1, at which a sequence leaves the stages of an order (paper, 2.3); None: it never does.

    A stage is any of the nodes before, each once and in the order, and then its own node for the first time. After the
    last stage there is nothing.
    """
    number = {v: k for k, v in enumerate(order)}
    stage, latest = 0, -1
    for position, v in enumerate(sequence, start=1):
        if stage == len(order) or not latest < number[v] <= stage:
            return position
        latest = number[v]
        if number[v] == stage:
            stage, latest = stage + 1, -1
    return None
