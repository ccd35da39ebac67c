"""Bytes on disk to JSON values, with one line for every way that this fails; and back to disk, all or nothing.

Text in a file whose name ends with .gz is compressed.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import tempfile
import zlib
from os import PathLike
from typing import Any, BinaryIO, TypeAlias

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.formatting import closest

Json: TypeAlias = Any
"""A JSON value that has not been checked yet: its reader checks each part, see `graphs.checks`."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object: its values are JSON values, by key."""
SIZE_LIMIT = 2**30
"""Largest file that is read, in bytes: a graph of 100,000 nodes and a million edges takes 41 MB."""
_PIECE = 2**24
_ENTRIES = 1000
"""How many entries of a folder are looked through for a name that is misspelt."""
COMPRESSED = ".gz"
_GZIP = 31
"""The parameter `wbits` of zlib for this format."""


def load_bytes(path: str | PathLike[str], limit: int, hint: str = "") -> bytes:
    """Read the bytes of a file.

    Raises:
        InputError: it cannot be read, or is larger than `limit`, to which `hint` is added; the file is not named.
    """
    try:
        with open(path, "rb") as file:
            data = _read(file, limit + 1)
    except (OSError, ValueError) as error:  # a path may have what no path has
        hint = misspelt(path) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read: {getattr(error, 'strerror', None) or error}{hint}") from None
    if len(data) > limit:
        raise InputError(f"larger than the limit of {limit} bytes{hint}")
    return data


def misspelt(path: str | PathLike[str]) -> str:
    """Return ", did you mean FILE?" with the file whose name is most similar; empty if none in the folder is."""
    folder, name = os.path.split(os.fspath(path))
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in itertools.islice(entries, _ENTRIES) if entry.is_file()]
    except OSError:
        return ""
    best = closest(name, names)
    return f", did you mean {os.path.join(folder, best)}?" if best else ""


def _read(file: BinaryIO, most: int) -> bytes:
    """Read at most `most` bytes, in pieces: a pipe has no size, and `most` bytes may be more memory than there is."""
    pieces = []
    while most > 0 and (piece := file.read(min(most, _PIECE))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def load_text(path: str | PathLike[str]) -> str:
    """The text of a UTF-8 file.

    Raises:
        InputError: it cannot be read, is larger than `SIZE_LIMIT` or is not UTF-8.
    """
    with located(path):
        data = load_bytes(path, SIZE_LIMIT)
        if os.fspath(path).endswith(COMPRESSED):
            data = _unpacked(data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: byte 0x{data[error.start]:02x} is not UTF-8") from None


def _unpacked(data: bytes) -> bytes:
    reader = zlib.decompressobj(_GZIP)
    try:
        text = reader.decompress(data, SIZE_LIMIT)
    except zlib.error:
        raise InputError("is not compressed by gzip, as its name implies") from None
    if not reader.eof:
        more = bool(reader.unconsumed_tail)
        raise InputError(f"more than {SIZE_LIMIT} bytes, uncompressed" if more else "the file is cut short")
    return text


def load_json(path: str | PathLike[str], page: Page | None = None) -> Json:
    """The JSON value in a file; strict: no NaN, no infinity, no key twice in one object.

    Args:
        page: explains what such a file contains.

    Raises:
        InputError: what `load_text` raises, or the text is not JSON; with line and column where they are known.
    """
    text = load_text(path)
    with explained(page):
        return parse_json(text, path)


def parse_json(text: str, path: str | PathLike[str]) -> Json:
    """The JSON value in `text`, which was read from `path`; see `load_json`."""
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        truncated = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        at_first = not text[: error.pos].strip()
        hint = " (is the file cut short?)" if truncated else " (this is not JSON)" if at_first else ""
        raise InputError(f"{path}: line {error.lineno} column {error.colno}: {error.msg}{hint}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except ValueError:  # int() refuses thousands of digits
        raise InputError(f"{path}: an integer has too many digits") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


def replace_file(path: str | PathLike[str], content: str | bytes) -> None:
    """Write bytes, or text as UTF-8, so that `path` holds, at any moment, either its old content or all of the new.

    A file that is there keeps its mode; what is no regular file (a pipe, a device) is written to. Text for a name that
    ends with .gz is compressed, to the same bytes every time.

    Raises:
        InputError: it cannot be written; `path` is then as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    check_name(path)
    if isinstance(content, str) and os.fspath(path).endswith(COMPRESSED):
        data = gzip.compress(data, mtime=0)
    target = os.path.realpath(path)  # through a link, which stays one
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        if _is_special(target):
            with open(target, "wb") as file:
                file.write(data)
            return
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            if os.path.exists(target):
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from None


def check_name(path: str | PathLike[str]) -> None:
    """Check that a path is one that a file may have.

    Raises:
        InputError: it has a null character.
    """
    if "\0" in os.fspath(path):
        raise InputError(f"{shown(os.fspath(path))}: no file has a name with a null character")


def check_writable(path: str | PathLike[str]) -> None:
    """Refuse now what `replace_file` would refuse after a long search.

    Raises:
        InputError: `path` is a directory, or no file can be created in its folder.
    """
    check_name(path)
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise InputError(f"{path}: is a directory")
    if _is_special(target):
        return
    if not os.path.isdir(folder):
        raise InputError(f"{path}: there is no folder {os.path.dirname(path)}")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from None


def _is_special(target: str) -> bool:
    """True for what is there but neither a regular file nor a folder."""
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _refuse_constant(name: str) -> None:
    raise InputError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise InputError(f"key {shown(twice)} is given twice in one object")
    return result
