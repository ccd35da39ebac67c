"""HTML pages around figures of plotly: a legend that covers nothing, dark pages, narrow windows, and tables.

Each is one file that needs no network. The legend is a part of the page, not of the figure, and wraps where a window is
narrow. Where a reader prefers dark pages the figure's colours are replaced, each by its partner in `NIGHT`.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from plotly.graph_objects import Figure

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.report.plots.picture import AFTER, BEFORE, BUDGET, COLOURS, GRID, GROUND, INK, PALE, SHADE, clean

NIGHT = {
    COLOURS["only"]: "#5B7083", COLOURS["first"]: "#56B4E9", COLOURS["again"]: "#F08A3C", COLOURS["copied"]: "#2FC79A",
    BEFORE: "#8C8C8C", AFTER: "#56B4E9", BUDGET: "#FFFFFF", INK: "#E4E4E4", PALE: "#1F3A4D", SHADE: "#24282C",
    GRID: "#34393E", GROUND: "#16191C",
}  # fmt: skip
"""The colour that replaces each colour of a figure on a dark page."""
MARGINS = {"l": 10, "r": 40, "t": 10, "b": 56}
"""Pixels around the panels of a figure; the toolbar is in the right one."""
LAYOUT = {
    "template": "none", "hovermode": "closest", "dragmode": "zoom", "font": {"color": INK, "size": 12},
    "margin": MARGINS, "modebar": {"orientation": "v"}, "showlegend": False, "uirevision": "kept",
    "paper_bgcolor": GROUND, "plot_bgcolor": GROUND,
}  # fmt: skip
"""What all figures of pages have in common."""
NARROW = 640
"""Windows that are less wide, in pixels, have short names and titles."""
_TABLE = "nodes"
"""The id of the section with the table."""
_BUTTONS = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]]  # none that sends data away
_SWATCHES = {
    "bar": '<rect y="2" width="20" height="8" fill="currentColor"/>',
    "line": '<path d="M0 6h20" stroke="currentColor" stroke-width="2.5"/>',
    "dash": '<path d="M0 6h20" stroke="currentColor" stroke-width="2" stroke-dasharray="6 3"/>',
    "hatch": '<rect y="1" width="20" height="10" fill="none" stroke="currentColor" stroke-dasharray="1 2"/>',
    "diamond": '<path d="M10 1l5 5-5 5-5-5z" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "triangle-down": '<path d="M5 2h10l-5 8z" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "triangle-up": '<path d="M5 10h10l-5-8z" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "dot": '<circle cx="10" cy="6" r="4" fill="currentColor"/>',
    "circle": '<circle cx="10" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "square": '<rect x="4" width="12" height="12" fill="none" stroke="currentColor" stroke-width="1.5"/>',
}
"""What stands for a trace in the legend, SVG of 20 x 12 pixels, by `Entry.swatch`."""


@dataclass(frozen=True)
class Entry:
    """An entry of the legend, for one or more traces."""

    text: str
    swatch: str
    colour: str
    traces: tuple[int, ...]
    """Positions in the figure's data, of what a click shows or hides."""


@dataclass(frozen=True)
class NamedRows:
    """An axis with a row for each name: all names where they fit, of more rows those that are marked."""

    axis: str
    names: tuple[str, ...]
    short: tuple[str, ...]
    """The names in narrow windows."""
    marked: tuple[int, ...]
    pixels: int
    """The height of the axis."""

    def as_dict(self) -> JsonObject:
        """Return what the page's script reads."""
        return {"axis": self.axis, "names": self.names, "short": self.short, "marked": self.marked,
                "pixels": self.pixels}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page: texts above a figure, the legend in groups, and a table below it."""

    title: str
    subtitle: str
    figure: Figure
    legend: tuple[tuple[str, tuple[Entry, ...]], ...]
    """Groups of entries, each with a title, which may be empty."""
    rows: tuple[NamedRows, ...] = ()
    narrow_titles: dict[str, str] = field(default_factory=dict)
    """Titles in narrow windows, by axis."""
    table: str = ""
    """A section below the figure, HTML; the subtitle has a link to it."""

    def render(self) -> str:
        """Return the page."""
        given = {"night": NIGHT, "rows": [rows.as_dict() for rows in self.rows], "titles": self.narrow_titles}
        script = _SCRIPT.replace("GIVEN", json.dumps(given).replace("</", "<\\/")).replace("NARROW", str(NARROW))
        division = self.figure.to_html(
            full_html=False, include_plotlyjs=True, div_id="figure", post_script=script,
            config={"displaylogo": False, "responsive": True, "modeBarButtons": _BUTTONS},
        )  # fmt: skip
        return _PAGE.format(
            title=html.escape(clean(self.title)), subtitle=html.escape(self.subtitle), figure=division,
            light=_variables(dict.fromkeys(NIGHT)), dark=_variables(NIGHT), legend=self._legend(), table=self.table,
            link=f' - <a href="#{_TABLE}">table of nodes</a>' if self.table else "",
            ink=variable(INK), ground=variable(GROUND), grid=variable(GRID), narrow=NARROW,
        )  # fmt: skip

    def _legend(self) -> str:
        groups = []
        for title, entries in self.legend:
            heading = f"<li>{html.escape(clean(title))}:</li>" if title else ""
            groups.append(f"<ul>{heading}{''.join(map(_item, entries))}</ul>")
        return "\n".join(groups)


def variable(colour: str) -> str:
    """Return the CSS value of a colour of `NIGHT`, light or dark as the page is."""
    return f"var(--c{colour.removeprefix('#')})"


def _variables(colours: dict[str, str] | dict[str, None]) -> str:
    return " ".join(f"--c{light.removeprefix('#')}: {other or light};" for light, other in colours.items())


def _item(entry: Entry) -> str:
    drawn = f'<svg width="20" height="12" style="color: {variable(entry.colour)}">{_SWATCHES[entry.swatch]}</svg>'
    traces = json.dumps(entry.traces)
    return f'<li><button type="button" data-traces="{traces}">{drawn} {html.escape(entry.text)}</button></li>'


def table_of(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a section with a table, whose first column is text and whose others are figures."""
    lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<section id="{_TABLE}"><h2>{html.escape(title)}</h2><div class="scroll"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></section>"
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
body {{ margin: 0; font-family: sans-serif; color: {ink}; background: {ground}; }}
h1, h2, p {{ font-weight: normal; margin: 0.4rem 1rem 0; overflow-wrap: anywhere; }}
h1, h2 {{ font-size: 1.1rem; }}
a {{ color: inherit; }}
ul {{ display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; margin: 0.4rem 1rem; padding: 0; list-style: none; }}
li, li button {{ font: 0.8rem sans-serif; color: inherit; }}
li button {{ border: 0; padding: 0; background: none; text-align: left; cursor: pointer; }}
li button[aria-pressed="true"] {{ opacity: 0.4; }}
.scroll {{ overflow-x: auto; margin: 0.4rem 1rem 1rem; }}
table {{ border-collapse: collapse; font-size: 0.8rem; font-variant-numeric: tabular-nums; }}
td, th {{ padding: 0.15rem 0.8rem 0.15rem 0; border-bottom: 1px solid {grid}; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }}
th {{ font-weight: normal; }}
@media (max-width: {narrow}px) {{ table {{ font-size: 0.65rem; }} td, th {{ padding-right: 0.4rem; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{subtitle}{link}</p>
{legend}
{figure}
{table}
</body>
</html>
"""
_SCRIPT = """
const GAP = 12, given = GIVEN;  // GAP: the pixels that a name needs
const figure = document.getElementById("figure"), made = [figure.data, figure.layout];
const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: NARROWpx)");
const SAME = new Set(["x", "y", "base", "hovertext", "names", "short"]);
const dressed = (value) => {
  if (typeof value === "string") return value.replace(/#[0-9A-F]{6}\\b/g, (colour) => given.night[colour] || colour);
  if (Array.isArray(value)) return value.map(dressed);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, SAME.has(key) ? of : dressed(of)]));
};
const ticks = (rows, range) => {  // all names where they fit, else of the marked rows those that do
  const [low, high] = [Math.min(...range), Math.max(...range)], least = GAP * (high - low) / rows.pixels;
  if (least <= 1) return { tickmode: "linear", dtick: 1, tickvals: null };
  if (!rows.marked.length) return { tickmode: "auto", dtick: null, tickvals: null };
  const chosen = [];
  for (const row of rows.marked)
    if (row >= low && row <= high && (!chosen.length || row - chosen[chosen.length - 1] >= least)) chosen.push(row);
  return { tickmode: "array", dtick: null, tickvals: chosen.map(String) };
};
const draw = () => {
  const copy = made.map((part) => JSON.parse(JSON.stringify(part)));
  const [data, layout] = dark.matches ? copy.map(dressed) : copy;
  for (const [key, axis] of Object.entries(layout))  // what is zoomed stays so
    if (/^[xy]axis/.test(key)) axis.range = [...figure.layout[key].range];
  for (const rows of given.rows) {
    const axis = layout[rows.axis], names = narrow.matches ? rows.short : rows.names;
    const own = dark.matches ? dressed(names) : names;
    axis.labelalias = Object.fromEntries(own.map((name, row) => [row, name]));
    if (narrow.matches) Object.assign(axis, { title: { text: "" }, tickfont: { size: 10 } });
    Object.assign(axis, ticks(rows, axis.range));
  }
  if (narrow.matches) for (const [axis, title] of Object.entries(given.titles)) layout[axis].title.text = title;
  data.forEach((trace, place) => { trace.visible = !hidden.has(place); });
  Plotly.react(figure, data, layout);
};
const hidden = new Set();
for (const button of document.querySelectorAll("button[data-traces]"))
  button.addEventListener("click", () => {
    const hide = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", hide);
    for (const place of JSON.parse(button.dataset.traces)) hide ? hidden.add(place) : hidden.delete(place);
    draw();
  });
for (const query of [dark, narrow]) query.addEventListener("change", draw);
figure.on("plotly_relayout", (changed) => {
  for (const rows of given.rows) {
    if (!Object.keys(changed).some((key) => key.startsWith(`${rows.axis}.`) && key.includes("range"))) continue;
    const found = Object.entries(ticks(rows, figure.layout[rows.axis].range));
    Plotly.relayout(figure, Object.fromEntries(found.map(([key, value]) => [`${rows.axis}.${key}`, value])));
  }
});
draw();
"""
