"""Pictures of fronts as files: the form by the suffix."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from moccasin_mzn.extensions.frontier.points import Frontier
from moccasin_mzn.files import replace_file
from moccasin_mzn.report.plots.files import check_picture_file
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture


def write_frontier(path: str | PathLike[str], frontier: Frontier) -> None:
    """Draw a front in the form that the suffix of `path` names, which holds its old content or all of the new.

    Raises:
        InputError: what `check_picture_file` raises; the file cannot be written and is then as it was.
    """
    check_picture_file(path)
    picture, form = FrontierPicture(frontier), Path(path).suffix.lower().removeprefix(".")
    if form == "html":
        from moccasin_mzn.report.plots.frontier_interactive import render as render_page

        return replace_file(path, render_page(picture))
    from moccasin_mzn.report.plots.frontier_static import render

    replace_file(path, render(picture, form))
