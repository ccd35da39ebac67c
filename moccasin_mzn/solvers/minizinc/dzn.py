"""MiniZinc data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

Value = bool | int | Set[int] | Sequence[Any]
"""A scalar, a set, or an array of one or two dimensions."""


def dzn_text(data: Mapping[str, Value]) -> str:
    """`data` as the text of a `.dzn` file, one item a line."""
    return "".join(f"{name} = {_literal(value)};\n" for name, value in data.items())


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Set):
        return f"{{{', '.join(map(_literal, sorted(value)))}}}"
    if len(value) > 0 and not isinstance(value[0], int):  # rows of a matrix
        if not any(value):
            return f"array2d(1..{len(value)}, 1..0, [])"  # of which there is no literal
        return f"[|{'|'.join(', '.join(map(_literal, row)) for row in value)}|]"
    return f"[{', '.join(map(_literal, value))}]"
