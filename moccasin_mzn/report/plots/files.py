"""Pictures as files: the form by the suffix, everything that can fail checked before the work."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from moccasin_mzn.errors import InputError, require
from moccasin_mzn.files import check_writable, replace_file
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.picture import Picture

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
    require("plot", library)
    check_writable(path)


def write_picture(path: str | PathLike[str], picture: Picture | FrontierPicture) -> None:
    """Draw `picture` in the form that the suffix of `path` names, which holds its old content or all of the new.

    Raises:
        InputError: what `check_picture_file` raises; the file cannot be written and is then as it was.
    """
    check_picture_file(path)
    form = _suffix(path).removeprefix(".")
    if form == "html":
        return replace_file(path, page_of(picture))
    from moccasin_mzn.report.plots import frontier_static, static

    if isinstance(picture, FrontierPicture):
        return replace_file(path, frontier_static.render(picture, form))
    replace_file(path, static.render(picture, form))


def page_of(picture: Picture | FrontierPicture) -> str:
    """The interactive picture, as a page of its own.

    Raises:
        InputError: the drawing library is not installed.
    """
    require("plot", "plotly")
    from moccasin_mzn.report.plots import frontier_interactive, interactive

    if isinstance(picture, FrontierPicture):
        return frontier_interactive.render(picture)
    return interactive.render(picture)


def _suffix(path: str | PathLike[str]) -> str:
    return Path(path).suffix.lower()
