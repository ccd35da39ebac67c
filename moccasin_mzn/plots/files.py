"""Pictures as files: the form by the suffix, everything that can fail checked before the work."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from moccasin_mzn.errors import InputError
from moccasin_mzn.plots.picture import Picture
from moccasin_mzn.readers.jsonfile import check_writable

_LIBRARIES = {".png": "matplotlib", ".svg": "matplotlib", ".html": "plotly"}


def check_picture_file(path: str | PathLike[str]) -> None:
    """Refuse now what `write_picture` would refuse after a long search.

    Raises:
        InputError: a suffix that is not .png, .svg or .html; its drawing library is not installed; no file can be
            written there.
    """
    library = _LIBRARIES.get(_suffix(path))
    if library is None:
        raise InputError(f"{path}: expected a name that ends in {', '.join(list(_LIBRARIES)[:-1])} or .html")
    if find_spec(library) is None:
        raise InputError(f"{library} is missing: pip install 'moccasin_mzn[plot]'")
    check_writable(path)


def write_picture(path: str | PathLike[str], picture: Picture) -> None:
    """Draw `picture` in the form that the suffix of `path` names, which holds its old content or all of the new.

    Raises:
        InputError: what `check_picture_file` raises; the file cannot be written and is then as it was.
    """
    check_picture_file(path)
    form = _suffix(path).removeprefix(".")
    if form == "html":
        from moccasin_mzn.plots.interactive import render as render_page

        content = render_page(picture).encode()
    else:
        from moccasin_mzn.plots.static import render

        content = render(picture, form)
    _replace(path, content)


def _suffix(path: str | PathLike[str]) -> str:
    return Path(path).suffix.lower()


def _replace(path: str | PathLike[str], content: bytes) -> None:
    """As `readers.jsonfile.replace_file`, for bytes."""
    target = Path(os.path.realpath(path))  # through a link, which stays one
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        if target.exists() and not target.is_file():  # a pipe
            target.write_bytes(content)
            return
        try:
            with open(temporary, "xb") as file:
                file.write(content)
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from None
