"""Which of many parameters of a test run by default, and which only with `make test-all` or `make test-slow`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest
from hypothesis import settings

GOLDEN_RATIO = (5**0.5 - 1) / 2
left_out: set[str] = set()
"""Names of marks whose tests are not run: values that would have one, tens of thousands, are then no tests at all."""


def spread(count: int) -> list[int]:
    """The numbers below `count` in an order of which every beginning is spread over them without a period."""
    return sorted(range(count), key=lambda place: place * GOLDEN_RATIO % 1)


def few(values: Iterable[Any], keep: int | Container[Any], mark: pytest.MarkDecorator = pytest.mark.full) -> list:
    """The values, marked but for those to keep: so many, spread over them without a period, or those in `keep`. What is
    marked with a mark that is left out is not among them, unless that is all.

    A tuple is one value for each of several arguments. A `pytest.param` with marks of its own keeps just these and is
    not counted.
    """
    values = list(values)
    plain = [index for index, value in enumerate(values) if not getattr(value, "marks", ())]
    if isinstance(keep, int):
        kept = {plain[place] for place in spread(len(plain))[:keep]}
    else:
        kept = {index for index in plain if values[index] in keep}
    rest = set(plain) - kept
    if mark.name in left_out and len(rest) < len(values):
        return [value for index, value in enumerate(values) if index not in rest]
    return [_marked(value, mark) if index in rest else value for index, value in enumerate(values)]


def _marked(value: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)


def examples(count: int) -> int:
    """So many examples of a property where the profile of hypothesis has 100, and the like part of them elsewhere."""
    return max(3, count * settings().max_examples // 100)
