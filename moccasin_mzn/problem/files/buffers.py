"""Buffers in the CSV of minimalloc (Moffitt, ASPLOS 2023): a header, and one buffer a line. ::

    id,lower,upper,size,alignment,offset
    b1,0,3,4,1,8

Lifespans are half-open, lower..upper - 1. Columns may come in any order; "alignment" and "offset" may be left out. As
in minimalloc "buffer" and "buffer_id" stand for "id", "begin" and "start" for "lower"; and "end", which is the last
time of the lifespan and so one less, for "upper". Gaps in lifespans ("gaps") and whatever else is refused by name.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from os import PathLike

from moccasin_mzn.errors import InputError, explained, located, shown
from moccasin_mzn.files import load_text
from moccasin_mzn.pages import Page
from moccasin_mzn.problem.arena import Buffer
from moccasin_mzn.words import count_text

_NAMES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}
_NEEDED, _OPTIONAL = ("id", "lower", "upper", "size"), ("alignment", "offset")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def read_buffers(path: str | PathLike[str]) -> tuple[tuple[Buffer, ...], tuple[int, ...] | None]:
    """The buffers of a file, and their offsets if it has that column; nothing is checked of the offsets.

    Raises:
        InputError: the file cannot be read, a column is missing, given twice or unknown, a line has too few or too many
            fields, a number is none, an id is given twice, or a buffer makes no sense; with the line.
    """
    return parse_buffers(load_text(path), path)


def parse_buffers(text: str, path: str | PathLike[str]) -> tuple[tuple[Buffer, ...], tuple[int, ...] | None]:
    """`read_buffers` for the text of a file that was read from `path`."""
    with located(path), explained(Page.ADDRESSES):
        rows = [(number, row) for number, row in enumerate(_rows(text), start=1) if row]
        if not rows:
            raise InputError("the file is empty")
        columns, closed = _columns(rows[0][1])
        buffers, offsets, seen = [], [], set()
        for number, row in rows[1:]:
            if len(row) != len(columns):
                raise InputError(f"line {number}: {count_text(len(row), 'field')}, the header has {len(columns)}")
            with located(f"line {number}"):
                fields = dict(zip(columns, row, strict=True))
                buffers.append(_buffer(fields, closed))
                if "offset" in fields:
                    offsets.append(_integer("offset", fields["offset"]))
                if fields["id"] in seen:
                    raise InputError(f"buffer {fields['id']} is given twice")
                seen.add(fields["id"])
    return tuple(buffers), tuple(offsets) if "offset" in columns else None


def buffers_text(buffers: Sequence[Buffer], offsets: Sequence[int] | None = None) -> str:
    """The CSV of buffers, and of their offsets if there are any; alignments only where one is not 1."""
    aligned = any(buffer.alignment != 1 for buffer in buffers)
    header = [*_NEEDED, *(("alignment",) if aligned else ()), *(("offset",) if offsets is not None else ())]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for at, buffer in enumerate(buffers):
        row = [buffer.name, buffer.start, buffer.end, buffer.size]
        row += [buffer.alignment] if aligned else []
        row += [offsets[at]] if offsets is not None else []
        writer.writerow(row)
    return out.getvalue()


def _rows(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError(f"not CSV: {error}") from None


def _columns(header: Sequence[str]) -> tuple[list[str], bool]:
    """The columns by the names used here, and whether ends are closed."""
    columns = [_NAMES.get(name.strip(), name.strip()) for name in header]
    for name in columns:
        if name == "gaps":
            raise InputError('column "gaps" is not supported: lifespans have no gaps here')
        if name not in _NEEDED + _OPTIONAL:
            raise InputError(
                f"column {shown(name)} is not supported, expected some of {', '.join(_NEEDED + _OPTIONAL)}"
            )
        if columns.count(name) > 1:
            raise InputError(f'column "{name}" is given twice')
    for name in _NEEDED:
        if name not in columns:
            raise InputError(f'column "{name}" is missing')
    return columns, "end" in [name.strip() for name in header]


def _buffer(fields: dict[str, str], closed: bool) -> Buffer:
    values = {name: _integer(name, fields[name]) for name in ("lower", "upper", "size")}
    alignment = _integer("alignment", fields["alignment"]) if "alignment" in fields else 1
    return Buffer(fields["id"], values["lower"], values["upper"] + closed, values["size"], alignment)


def _integer(what: str, text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise InputError(f"{what} {shown(text)} is not an integer")
    return int(text)
