"""A document as files: HTML, Markdown with SVG figures, LaTeX with PDF figures. Equal numbers make equal bytes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawn
from matplotlib.lines import Line2D

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import replace_file
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.bench.report.document import Document, Figure, Mark, Panel, Table
from moccasin_mzn.bench.report.drawing import FAINT, INK

_SETTINGS: dict[Any, Any] = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.grid": True, "grid.color": FAINT, "grid.linewidth": 0.5, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "axes.titlelocation": "left", "font.family": "sans-serif", "font.size": 8,
    "font.sans-serif": ["DejaVu Sans"], "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5, "legend.fontsize": 8, "legend.frameon": False, "figure.facecolor": "none",
    "axes.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "none", "svg.hashsalt": "moccasin_mzn",
    "pdf.fonttype": 42, "text.parse_math": False, "text.usetex": False,
}  # fmt: skip
_SMALL, _LARGE = (3.3, 2.35), (4.3, 3.1)
"""Width and height of a panel in inches."""
_COLUMNS = 3
"""The columns of small panels where the figure leaves that open; a page has at most as many rows of panels."""
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.64, 0.1, 0.4, 0.24
"""Margins of a panel in inches. They are fixed: to measure the labels of every panel takes longer than to draw it."""
_HANDLE, _CHARACTER = 0.62, 0.075
"""Room in inches for the line of a legend's entry, and for a character of it."""
_POINTS, _BOLD = 72, 0.66
"""Points of an inch, and the width of a bold character as a part of the size of its font, on average."""
_FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', Arial, sans-serif"


def panel_svg(panel: Panel, name: str, small: bool) -> str:
    """Draw a panel as an SVG element for a page, without a size, in the page's text colour; ids begin with `name`."""
    with _settings():
        figure = Drawn(figsize=_SMALL if small else _LARGE)
        _draw(panel, _panel_axes(figure, 0, 1, 1), small)
        text = _bytes(figure, "svg").decode("utf-8")
    return _for_page(text, name).replace("<svg ", f'<svg role="img" aria-label={quoteattr(panel.title)} ', 1)


def mark_svg(mark: Mark, name: str) -> str:
    """Draw a short piece of a method's line, with its marker, for the legend on a page; ids begin with `name`."""
    with _settings():
        figure = Drawn(figsize=(0.42, 0.16))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.set_ylim(-1, 1)
        axes.add_line(_handle(mark, [0.02, 0.5, 0.98]))
        text = _bytes(figure, "svg").decode("utf-8")
    return _for_page(text, name).replace("<svg ", '<svg aria-hidden="true" ', 1)


def _for_page(text: str, name: str) -> str:
    """Return the SVG element only, without a size, with ids of its own and the colours and fonts of the page."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    opening, _, rest = text.partition(">")
    text = re.sub(r' (width|height)="[^"]*"', "", opening) + ">" + rest
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    return text.replace(INK, "currentColor").replace(FAINT, "var(--faint)").replace("'DejaVu Sans', sans-serif", _FONTS)


def figure_files(figure: Figure, kinds: Sequence[str]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield a figure's pages of panels, each with the legend: a name, and the file contents for each of `kinds`, which
    are "svg" and "pdf"."""
    panels, most = figure.panels, (figure.columns or _COLUMNS) ** 2
    pages = [panels[k : k + most] for k in range(0, len(panels), most)]
    for number, page in enumerate(pages, 1):
        name = figure.name if len(pages) == 1 else f"{figure.name}-{number}"
        with _settings():
            drawn = draw_page(figure, page)
            yield name, {kind: _bytes(drawn, kind, "white") for kind in kinds}


def draw_page(figure: Figure, panels: Sequence[Panel]) -> Drawn:
    """Draw panels of a figure in rows, with the legend below them."""
    rows = -(-len(panels) // min(len(panels), figure.columns or (_COLUMNS if figure.small else 2)))
    columns = min(len(panels), figure.columns or -(-len(panels) // rows))  # four are two and two, not three and one
    width, height = _SMALL if figure.small else _LARGE
    shrink = (0.8, 0.85) if figure.small else (1, 1)
    whole = columns * width * shrink[0]
    longest = max((len(label) for label, _ in figure.legend), default=0)
    legend_columns = max(1, min(len(figure.legend), int(whole / (_HANDLE + _CHARACTER * longest))))
    legend_rows = -(-len(figure.legend) // legend_columns)
    legend_height = 0.2 * legend_rows + 0.1 if figure.legend else 0.0
    drawn = Drawn(figsize=(whole, rows * height * shrink[1] + legend_height))
    for place, panel in enumerate(panels):
        _draw(panel, _panel_axes(drawn, place, rows, columns, legend_height), figure.small)
    if figure.legend:
        handles = [_handle(mark, [0, 0.5, 1]) for _, mark in figure.legend]
        labels = [label for label, _ in figure.legend]
        drawn.legend(handles, labels, loc="lower center", ncols=legend_columns, handlelength=2.8)
    return drawn


def _panel_axes(drawn: Drawn, place: int, rows: int, columns: int, below: float = 0.0) -> Axes:
    """Make the axes of the panel at `place`, row by row, with its margins; `below` is the space under all in inches."""
    width, height = drawn.get_size_inches()
    row, column = divmod(place, columns)
    across, down = width / columns, (height - below) / rows
    left, bottom = column * across + _LEFT, height - (row + 1) * down + _BOTTOM
    box = (left / width, bottom / height, (across - _LEFT - _RIGHT) / width, (down - _BOTTOM - _TOP) / height)
    return drawn.add_axes(box)


def _draw(panel: Panel, axes: Axes, small: bool) -> None:
    room = axes.bbox.width / axes.figure.dpi + _RIGHT
    size = min(7.5 if small else 8.5, _POINTS * room / (_BOLD * len(panel.title)))
    axes.set_title(panel.title, fontsize=size, fontweight="bold")
    panel.draw(axes)


def _handle(mark: Mark, places: Sequence[float]) -> Line2D:
    """Make a line with a marker in its middle; published points are hollow markers without a line."""
    line = Line2D(
        places, [0.0] * len(places), color=mark.color, linewidth=1.3, linestyle="none" if mark.published else "-",
        marker=mark.marker or None, markersize=4.5, markevery=[len(places) // 2],
    )  # fmt: skip
    if mark.published:
        line.set(markersize=7, markerfacecolor="none", markeredgewidth=0.9)
    elif mark.dashes:
        line.set_dashes(mark.dashes)
    return line


def _settings() -> AbstractContextManager[None]:
    defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")}
    return matplotlib.rc_context({**defaults, **_SETTINGS})


def _bytes(figure: Drawn, kind: str, background: str = "none") -> bytes:
    nothing = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}
    out = io.BytesIO()
    figure.savefig(out, format=kind, facecolor=background, metadata=nothing.get(kind))
    return out.getvalue()


# --- Templates and files --------------------------------------------------------------------------------------


_TEMPLATES = {"html": ("report.html",), "md": ("report.md",), "tex": ("report.tex", "report-body.tex")}
"""The files of each format; each has a template of its name."""
FORMATS = tuple(_TEMPLATES)
_KINDS = {"md": "svg", "tex": "pdf"}
"""The form of the files of figures, by format; an HTML page includes its figures."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "--": "{-}{-}", "*": "{*}", "\u00a0": "~",
}  # fmt: skip
_SIGNS = {False: ("{%", "%}", "{{", "}}", "{#", "#}"), True: ("<%", "%>", "<<", ">>", "<#", "#>")}
"""Jinja's signs for blocks, variables and comments: its own, and those of LaTeX, where braces mean something else."""
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")


def latex(text: object) -> str:
    """Escape text for LaTeX; brackets and asterisks are in braces, so that they mean nothing to commands around."""
    pieces = re.split(r"(--|.)", _SPACES.sub(" ", str(text)))
    return "".join(_LATEX.get(piece, piece) for piece in pieces)


def markdown(text: object) -> str:
    """Escape text for Markdown, also in a cell of a table."""
    return _MARKDOWN.sub(r"\\\1", _SPACES.sub(" ", str(text)))


def write(document: Document, folder: Path, formats: Sequence[str] = FORMATS) -> tuple[Path, ...]:
    """Write a report in some of `FORMATS` and return the files of text; each file is replaced as a whole.

    Raises:
        InputError: a format is unknown, or a file cannot be written.
    """
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"unknown format {name}, {one_of(name, FORMATS)}")
    _make(folder)
    kinds = [_KINDS[name] for name in FORMATS if name in formats and name in _KINDS]
    pages = _figures(document, folder / "figures", kinds) if kinds else {}
    written = [folder / file for name in FORMATS if name in formats for file in _TEMPLATES[name]]
    for path in written:
        replace_file(path, _template(f"{path.name}.j2").render(document=document, pages=pages))
    return tuple(written)


def _figures(document: Document, folder: Path, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Write all figures; return the names of the pages of each, which are the names of its files without suffix."""
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


def _template(name: str) -> Template:
    block, end_block, variable, end_variable, comment, end_comment = _SIGNS[".tex" in name]
    environment = Environment(
        loader=PackageLoader("moccasin_mzn.bench.report"), autoescape=".html" in name, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, block_start_string=block,
        block_end_string=end_block, variable_start_string=variable, variable_end_string=end_variable,
        comment_start_string=comment, comment_end_string=end_comment,
    )  # fmt: skip
    environment.globals.update(panel_svg=panel_svg, mark_svg=mark_svg)
    environment.filters.update(latex=latex, markdown=markdown)
    environment.tests.update(table=lambda block: isinstance(block, Table))
    return environment.get_template(name)


def check_folder(folder: Path) -> None:
    """Refuse now what `write` would refuse after all figures are drawn.

    Raises:
        InputError: `folder` is a file, or cannot be written to or made.
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
