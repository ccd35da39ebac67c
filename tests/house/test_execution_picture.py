"""data/execution.svg is the table of docs/benchmarks.md: one colour a method, and a legend that covers no data."""

from __future__ import annotations

import subprocess
import sys

import execution_picture as script
import pytest
from documents import ROOT
from drawing import groups

from moccasin_mzn.base.errors import InputError

PAGE = ROOT / "docs" / "benchmarks.md"


def test_the_points_are_those_of_the_page():
    points = script.read_points(PAGE)
    assert script.Point("mlp", "plan", 34.308, 13.9) in points
    assert script.Point("lstm", "plan", 14.893, -6.4) in points
    assert (
        len({point.net for point in points}) == 6 and len(points) == PAGE.read_text().count(" | yes |\n", *span()) + 2
    )
    with pytest.raises(InputError, match="no table with the headings net, method"):
        script.read_points(ROOT / "README.md")


def span() -> tuple[int, int]:
    """Where the section is, from its heading to the picture."""
    text = PAGE.read_text()
    return text.index("## Training steps within a budget"), text.index("data/execution.svg)")


@pytest.mark.full
def test_the_picture_has_each_point_of_the_page(tmp_path):
    points = script.read_points(PAGE)
    made = tmp_path / "execution.svg"
    subprocess.run([sys.executable, script.__file__, PAGE, "--plot", made], check=True)
    for path in (made, ROOT / "data" / "execution.svg"):
        drawn = groups(path.read_bytes())
        for net in {point.net for point in points}:
            for method in script.STYLES:
                own = [point for point in points if (point.net, point.method) == (net, method)]
                group = drawn.get(f"{net}-{method}")
                assert (0 if group is None else len(list(group.iter("{http://www.w3.org/2000/svg}use")))) == len(own)


def test_methods_have_colours_of_their_own_and_the_legend_covers_no_data():
    assert len({style.colour for style in script.STYLES.values()}) == len(script.STYLES)
    assert len({style.marker for style in script.STYLES.values()}) == len(script.STYLES)
    points = [script.Point(net, method, 5.0 + k, 3.0 * k) for net in ("a", "b", "c") for k, method in
              enumerate(script.STYLES)]  # fmt: skip
    drawn = script.picture(points)
    drawn.draw_without_rendering()
    (legend,) = drawn.legends
    own = legend.get_window_extent()
    assert own.x0 >= 0 and own.x1 <= drawn.bbox.x1 and own.y0 >= 0
    for axes in drawn.axes:
        assert own.y1 <= axes.get_window_extent().y0 or not axes.get_visible()
        if axes.get_visible():
            assert axes.get_xlabel().endswith(", MB") and axes.get_ylabel().endswith(", %")
