"""Which of many parameters of a test run by default, and which only with `make test-all` or `make test-slow`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest

GOLDEN_RATIO = (5**0.5 - 1) / 2


def few(values: Iterable[Any], keep: int | Container[Any], mark: pytest.MarkDecorator = pytest.mark.full) -> list:
    """The values, marked but for those to keep: so many, spread over them without a period, or those in `keep`.

    A `pytest.param` with marks of its own keeps just these and is not counted.
    """
    values = list(values)
    plain = [index for index, value in enumerate(values) if not getattr(value, "marks", ())]
    if isinstance(keep, int):
        spread = sorted(range(len(plain)), key=lambda place: place * GOLDEN_RATIO % 1)
        kept = {plain[place] for place in spread[:keep]}
    else:
        kept = {index for index in plain if values[index] in keep}
    rest = set(plain) - kept
    return [pytest.param(value, marks=mark) if index in rest else value for index, value in enumerate(values)]
