"""A plotly figure as a page of its own: one file that needs no network."""

from __future__ import annotations

import html

from plotly.graph_objects import Figure

from moccasin_mzn.report.plots.colours import INK
from moccasin_mzn.report.plots.names import clean

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; font-family: sans-serif; color: {ink}; background: #fff; }}
h1, p {{ font-weight: normal; margin: 0.4rem 1rem 0; }}
h1 {{ font-size: 1.1rem; }}
#figure {{ height: calc(100vh - 4.5rem) !important; min-height: {least}px; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{subtitle}</p>
{figure}
</body>
</html>
"""
_BUTTONS = [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]]  # none that sends data away


def page(figure: Figure, title: str, subtitle: str, least: int) -> str:
    """The page; the figure is at least so many pixels high."""
    division = figure.to_html(
        full_html=False, include_plotlyjs=True, div_id="figure",
        config={"displaylogo": False, "responsive": True, "modeBarButtons": _BUTTONS},
    )  # fmt: skip
    return _PAGE.format(
        title=html.escape(clean(title)), subtitle=html.escape(subtitle), figure=division, ink=INK, least=least
    )
