"""A document to files: one HTML page; Markdown with SVG figures; LaTeX with PDF figures."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from moccasin_mzn.bench.report.canvas import figure_files, mark_svg, panel_svg
from moccasin_mzn.bench.report.document import Document, Figure, Table
from moccasin_mzn.errors import InputError
from moccasin_mzn.files import replace_file

_TEMPLATES = {"html": ("report.html",), "md": ("report.md",), "tex": ("report.tex", "report-body.tex")}
"""The files of each format, each of a template of its name."""
FORMATS = tuple(_TEMPLATES)
_KINDS = {"md": "svg", "tex": "pdf"}
"""Of the files of figures; a page holds its own."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "--": "{-}{-}", "*": "{*}", "\u00a0": "~",
}  # fmt: skip
_TEX = {
    "block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<", "variable_end_string": ">>",
    "comment_start_string": "<#", "comment_end_string": "#>",
}  # fmt: skip
"""Jinja's signs in templates of LaTeX, where braces mean something else."""
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")


def latex(text: object) -> str:
    """`text` as LaTeX shows it; brackets and asterisks in braces, so that they mean nothing to the commands around."""
    pieces = re.split(r"(--|.)", _SPACES.sub(" ", str(text)))
    return "".join(_LATEX.get(piece, piece) for piece in pieces)


def markdown(text: object) -> str:
    """`text` as Markdown shows it, also in a cell of a table."""
    return _MARKDOWN.sub(r"\\\1", _SPACES.sub(" ", str(text)))


def write(document: Document, folder: Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Write a report in some of `FORMATS`; each file is replaced whole, those of text are returned.

    Raises:
        InputError: an unknown format, or a file that cannot be written.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"unknown format {name}, expected one of {', '.join(FORMATS)}")
    _make(folder)
    kinds = [_KINDS[name] for name in FORMATS if name in formats and name in _KINDS]
    pages = _figures(document, folder / "figures", kinds) if kinds else {}
    written = [folder / file for name in FORMATS if name in formats for file in _TEMPLATES[name]]
    for path in written:
        replace_file(path, _template(f"{path.name}.j2").render(document=document, pages=pages))
    return tuple(written)


def _figures(document: Document, folder: Path, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Write all figures; the names of the pages of each, which are those of its files without their kind."""
    _make(folder)
    names: dict[str, list[str]] = {}
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                names[block.name] = []
                for name, contents in figure_files(block, kinds):
                    for kind, content in contents.items():
                        replace_file(folder / f"{name}.{kind}", content)
                    names[block.name].append(name)
    return names


def _template(name: str) -> Any:
    form: dict[str, Any] = dict(_TEX) if ".tex" in name else {}
    environment = Environment(
        loader=PackageLoader("moccasin_mzn.bench.report"), autoescape=".html" in name, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **form,
    )  # fmt: skip
    environment.globals.update(panel_svg=panel_svg, mark_svg=mark_svg)
    environment.filters.update(latex=latex, markdown=markdown)
    environment.tests.update(table=lambda block: isinstance(block, Table))
    return environment.get_template(name)


def check_folder(folder: Path) -> None:
    """Refuse now what `write` would refuse after all figures are drawn.

    Raises:
        InputError: `folder` is a file, or it can be neither written to nor made.
    """
    above = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not above.is_dir():
        raise InputError(f"{above}: is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{above}: cannot write there")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot make the folder: {error.strerror or error}") from None
