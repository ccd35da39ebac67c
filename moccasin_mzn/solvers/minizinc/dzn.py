"""MiniZinc data files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

Value = bool | int | str | Sequence[Any] | Set[Any]
"""A scalar, a set, or an array of one or two dimensions."""


class Member(str):
    """The name of a member of an enumeration; a plain text is a string."""


def dzn_text(data: Mapping[str, Value]) -> str:
    """`data` as the text of a `.dzn` file, one item a line."""
    return "".join(f"{name} = {_literal(value)};\n" for name, value in data.items())


def json_text(data: Mapping[str, Value]) -> str:
    """`data` as MiniZinc's JSON."""
    return json.dumps({name: _json(value) for name, value in data.items()}, ensure_ascii=False) + "\n"


def _json(value: Value) -> Any:
    if isinstance(value, Member):
        return {"e": str(value)}
    if isinstance(value, Set):
        return {"set": [_json(one) for one in sorted(value)]}
    return value if isinstance(value, bool | int | str) else [_json(one) for one in value]


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Member):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Set):
        return f"{{{', '.join(map(_literal, sorted(value)))}}}"
    if len(value) > 0 and not isinstance(value[0], int | str):  # rows of a matrix
        if not any(value):
            return f"array2d(1..{len(value)}, 1..0, [])"  # of which there is no literal
        return f"[|{'|'.join(', '.join(map(_literal, row)) for row in value)}|]"
    return f"[{', '.join(map(_literal, value))}]"
