"""Buffers in the CSV of minimalloc (Moffitt, ASPLOS 2023): a header, and one buffer a line. ::

    id,lower,upper,size,alignment,hint,gaps,offset
    b1,0,9,4,1,-1,2-4 6-8@1:3,8

Lifespans are half-open, lower..upper - 1. Columns may come in any order; those after "size" may be left out. As in
minimalloc "buffer" and "buffer_id" stand for "id", "begin" and "start" for "lower"; and "end", which is the last
time of the lifespan and so one less, for "upper", and then gaps end like that too. What else there is is refused by
name.

- "offset": where the buffer lies. Here the field may be empty: then that is to be found. minimalloc wants one in every
  line if there is the column.
- "hint": where a search begins with it; empty or negative: anywhere.
- "gaps": times at which it takes nothing, such as 2-4, or a window of its addresses only, such as 6-8@1:3; half-open,
  with blanks between them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.files import load_text
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.problem.arena import capacity_of, check_alignment, given_flaw
from moccasin_mzn.problem.buffer import Buffer, Gap

_NAMES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}
_NEEDED, _OPTIONAL = ("id", "lower", "upper", "size"), ("alignment", "hint", "gaps", "offset")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:@([0-9]{1,19}):([0-9]{1,19}))?", re.ASCII)


def read_buffers(
    path: str | PathLike[str], alignment: int = 1, capacity: int | str | None = None
) -> tuple[Buffer, ...]:
    """The buffers of a file.

    Args:
        alignment, capacity: what offsets in the file must keep to.

    Raises:
        InputError: the file cannot be read, a column is missing, given twice or unknown, a line has missing or further
            fields, a number is wrong, an id is given twice, a buffer makes no sense, or its offset contradicts that of
            another one, the alignment or the capacity; with the line.
    """
    return parse_buffers(load_text(path), path, alignment, capacity)


def parse_buffers(
    text: str, path: str | PathLike[str], alignment: int = 1, capacity: int | str | None = None
) -> tuple[Buffer, ...]:
    """`read_buffers` for the text of a file that was read from `path`."""
    check_alignment(alignment)
    capacity = capacity_of(capacity)
    with located(path), explained(Page.ADDRESSES):
        rows = [(number, row) for number, row in enumerate(_rows(text), start=1) if row]
        if not rows:
            raise InputError("the file is empty")
        columns, closed = _columns(rows[0][1])
        buffers, seen = [], set()
        for number, row in rows[1:]:
            if len(row) != len(columns):
                raise InputError(f"line {number}: {count_text(len(row), 'field')}, the header has {len(columns)}")
            with located(f"line {number}"):
                fields = dict(zip(columns, row, strict=True))
                buffers.append(_buffer(fields, closed))
                if fields["id"] in seen:
                    raise InputError(f"buffer {fields['id']} is given twice")
                seen.add(fields["id"])
        wrong = given_flaw(tuple(buffers), alignment, capacity)
        if wrong is not None:
            raise InputError(f"line {rows[1 + wrong[0]][0]}: {wrong[1]}")
    return tuple(buffers)


def buffers_text(buffers: Sequence[Buffer], offsets: Sequence[int] | None = None) -> str:
    """The CSV of buffers, as minimalloc writes it; optional columns only where they differ from the usual value.

    Args:
        offsets: of all of them; None: those that buffers have of their own.
    """
    if offsets is not None:
        buffers = [replace(buffer, offset=offset) for buffer, offset in zip(buffers, offsets, strict=True)]
    columns = {
        "alignment": [str(buffer.alignment) for buffer in buffers],
        "hint": ["-1" if buffer.hint is None else str(buffer.hint) for buffer in buffers],
        "gaps": [" ".join(map(_gap_text, buffer.gaps)) for buffer in buffers],
        "offset": ["" if buffer.offset is None else str(buffer.offset) for buffer in buffers],
    }
    usual = {"alignment": "1", "hint": "-1", "gaps": "", "offset": ""}
    columns_written = [name for name in columns if any(field != usual[name] for field in columns[name])]
    if offsets is not None and "offset" not in columns_written:
        columns_written.append("offset")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_NEEDED, *columns_written])
    for at, buffer in enumerate(buffers):
        writer.writerow(
            [buffer.name, buffer.start, buffer.end, buffer.size, *(columns[name][at] for name in columns_written)]
        )
    return out.getvalue()


def placed_text(text: str, offsets: Sequence[int]) -> str:
    """The CSV of a file that was read, with these offsets, one for each buffer; all else stays as it is."""
    header, *rows = (row for row in _rows(text) if row)
    names = [_NAMES.get(name.strip(), name.strip()) for name in header]
    at = names.index("offset") if "offset" in names else len(names)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*header[:at], "offset" if at == len(names) else header[at], *header[at + 1 :]])
    writer.writerows([*row[:at], offset, *row[at + 1 :]] for row, offset in zip(rows, offsets, strict=True))
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
        if name not in _NEEDED + _OPTIONAL:
            raise InputError(
                f"column {shown(name)} is not supported, expected some of {', '.join(_NEEDED + _OPTIONAL)}; begin or "
                "start in place of lower; end, which is included, in place of upper"
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
    offset, hint = (_optional_integer(name, fields.get(name, "")) for name in ("offset", "hint"))
    hint = None if hint is not None and hint < 0 else hint
    gaps = tuple(_gap(word, closed) for word in fields.get("gaps", "").split())
    life = values["lower"], values["upper"] + closed
    return Buffer(fields["id"], *life, values["size"], alignment, offset, hint, gaps)


def _gap(text: str, closed: bool) -> Gap:
    form = _GAP.fullmatch(text)
    if form is None:
        raise InputError(f"gap {shown(text)} is not like 3-6, or 3-6@0:4 with a window")
    window = None if form[3] is None else (int(form[3]), int(form[4]))
    return Gap(int(form[1]), int(form[2]) + closed, window)


def _gap_text(gap: Gap) -> str:
    return f"{gap.start}-{gap.end}" + ("" if gap.window is None else f"@{gap.window[0]}:{gap.window[1]}")


def _optional_integer(what: str, text: str) -> int | None:
    return _integer(what, text) if text.strip() else None


def _integer(what: str, text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise InputError(f"{what} {shown(text)} is not an integer")
    return int(text)
