"""Drawings on a pair of axes, and the look of methods: the same colours, dashes and markers in all figures.

The colours are those of Okabe and Ito (Color Universal Design, 2008), which readers with any colour vision can
distinguish, without yellow and black, which vanish on light and dark pages. Dashes and markers distinguish methods
without colour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, NullLocator

from moccasin_mzn.bench.report.document import Mark
from moccasin_mzn.bench.report.statistics import Curve, Steps

INK = "#1a1b1c"
"""The colour of text and axes; a page may replace it by its own."""
FAINT = "#c6c7c8"
"""The colour of grids; a page may replace it by its own."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#888888")
_MARKERS = ("o", "s", "D", "v", "P", "X", "<", ">", "p", "h", "d")
_DASHES = ((), (4, 1.5), (8, 2), (6, 1.5, 1.2, 1.5), (3, 1, 1, 1, 1, 1))
_DOTTED = (1, 1.5)
"""The line of bounds, which no method has."""

VIRTUAL_BEST = Mark(INK, (2.5, 1.2), "")
PUBLISHED = {"moccasin": Mark(INK, (), "*", True), "checkmate": Mark(INK, (), "d", True)}
"""The marks of the families of published figures that are drawn."""


def marks_for(methods: Sequence[str]) -> dict[str, Mark]:
    """Give each method a mark, by its position; colours repeat with other dashes and markers."""
    marks = {}
    for place, method in enumerate(methods):
        turn = place // len(COLORS)
        dashes = _DASHES[(place + turn) % len(_DASHES)]
        marks[method] = Mark(COLORS[place % len(COLORS)], dashes, _MARKERS[place % len(_MARKERS)])
    return marks


# --- Growth of the time to the best schedule with the nodes: a power law, fitted as a line in log-log ---------


LEAST_SIZES = 3
"""The fewest different sizes through which a line is fitted."""
FLOOR = 0.01
"""Shorter times count as this many seconds: they are not measured."""


@dataclass(frozen=True)
class PowerLaw:
    """seconds = factor * nodes ** exponent, by least squares of logarithms."""

    exponent: float
    factor: float

    def at(self, nodes: np.ndarray) -> np.ndarray:
        """Return the seconds for each number of nodes."""
        return self.factor * np.asarray(nodes, dtype=float) ** self.exponent


def fit(nodes: Sequence[float], seconds: Sequence[float]) -> PowerLaw | None:
    """Fit a power law to points; None if they have fewer than `LEAST_SIZES` different numbers of nodes."""
    sizes, times = np.asarray(nodes, dtype=float), np.maximum(np.asarray(seconds, dtype=float), FLOOR)
    if len(np.unique(sizes)) < LEAST_SIZES:
        return None
    exponent, offset = np.polyfit(np.log10(sizes), np.log10(times), 1)
    return PowerLaw(float(exponent), float(10**offset))


# --- Drawing on a pair of axes. Each function takes numbers that are computed elsewhere -----------------------


_EARLIEST = 0.1
"""Left end of time axes at the least, in seconds."""
_LEAST_RANGE = 0.02
"""The least range of an axis of duration increases, in percent: smaller differences do not matter."""
_TICKS = (0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class ProgressLine:
    """A method on a problem: total duration increase over time, in percent."""

    mark: Mark
    incumbent: Curve
    bound: Curve | None
    end: float
    """The seconds at which its runs ended."""


@dataclass(frozen=True)
class PublishedPoint:
    """A published total duration increase, in percent, and the seconds it took."""

    mark: Mark
    tdi: float
    seconds: float


def draw_progress(axes: Axes, lines: Sequence[ProgressLine], points: Sequence[PublishedPoint]) -> None:
    """Draw total duration increase over time: medians with the range over runs, bounds dotted, published points."""
    found = [line for line in lines if len(line.incumbent.seconds) and np.isfinite(line.incumbent.median[-1])]
    last = max([line.end for line in lines] + [point.seconds for point in points], default=1.0) * 1.25
    log_time(axes, _EARLIEST, last)
    axes.set_xlabel("seconds")
    axes.set_ylabel("TDI %")
    if not found:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no schedule found", transform=axes.transAxes, ha="center", va="center", color=INK)
        return
    bottom, top = progress_range(found, points)
    for line in lines:
        _draw_line(axes, line, top)
    for point in points:
        if point.tdi <= top:
            axes.plot([point.seconds], [point.tdi], linestyle="none", marker=point.mark.marker, markersize=8, zorder=5,
                      markerfacecolor="none", markeredgecolor=point.mark.color, markeredgewidth=0.9)  # fmt: skip
    axes.set_ylim(bottom, top)


def progress_range(found: Sequence[ProgressLine], points: Sequence[PublishedPoint]) -> tuple[float, float]:
    """Return the ends of an axis of duration increases, in percent, that shows how the good methods differ.

    It shows the values at the end that are at most three times their lower median, and the best bound. It shows first
    incumbents and bounds as well where these leave room enough for the differences, and zero where it is near.
    """
    finals = sorted([*(float(line.incumbent.median[-1]) for line in found), *(point.tdi for point in points)])
    most = 3 * max(finals[(len(finals) - 1) // 2], _LEAST_RANGE)
    shown = [value for value in finals if value <= most]
    known = [line.bound.median[np.isfinite(line.bound.median)] for line in found if line.bound is not None]
    proven = [float(bound[-1]) for bound in known if len(bound) and bound[-1] <= shown[0]]
    low, high = max(proven, default=shown[0]), shown[-1]
    spread = max(high - low, 0.05 * high, 0.1 if points else 0, _LEAST_RANGE)
    firsts = [float(line.incumbent.median[np.isfinite(line.incumbent.median)][0]) for line in found]
    firsts += [float(bound[0]) for bound in known if len(bound)]
    room = 3 * spread if high - low > 0.01 * high else max(high, spread)
    near = [value for value in firsts if low - room <= value <= high + room]
    low, high = min([low, *near]), max([high, *near])
    margin = max(0.4 * spread, 0.12 * (high - low))
    bottom, top = low - margin, high + margin
    return (bottom, top) if bottom > 0.3 * top else (-0.04 * top, top)


def _draw_line(axes: Axes, line: ProgressLine, top: float) -> None:
    color, incumbent = line.mark.color, line.incumbent
    if line.bound is not None and len(line.bound.seconds):
        seconds, values = _extended(line.bound.seconds, line.bound.median, line.end)
        axes.step(seconds, values, where="post", color=color, linewidth=0.9, dashes=_DOTTED, alpha=0.85)
    known = np.isfinite(incumbent.median) if len(incumbent.seconds) else np.array([], dtype=bool)
    if not known.any():
        return
    seconds, median = _extended(incumbent.seconds[known], incumbent.median[known], line.end)
    if incumbent.median[-1] > top:  # all of it is above: a triangle at the edge
        at = incumbent.seconds[np.argmin(incumbent.median)]
        axes.plot([max(at, _EARLIEST)], [top], linestyle="none", marker="^", markersize=6, color=color, clip_on=False)
        return
    _, low = _extended(incumbent.seconds[known], incumbent.low[known], line.end)
    _, high = _extended(incumbent.seconds[known], incumbent.high[known], line.end)
    if not np.array_equal(low, high):
        axes.fill_between(seconds, low, np.minimum(high, 10 * top), step="post", color=color, alpha=0.18, linewidth=0)
    _step(axes, line.mark, seconds, median)
    at = int(np.argmin(median))
    axes.plot([max(seconds[at], _EARLIEST)], [median[at]], linestyle="none", marker=line.mark.marker, markersize=4.5,
              color=color, clip_on=False, zorder=4)  # fmt: skip


def _extended(seconds: np.ndarray, values: np.ndarray, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Extend steps to the end of the runs, and let them begin no earlier than the axis."""
    seconds, values = np.maximum(seconds, _EARLIEST), np.where(np.isfinite(values), values, np.nan)
    if not len(seconds) or seconds[-1] >= end:
        return seconds, values
    return np.append(seconds, end), np.append(values, values[-1])


def draw_growth(
    axes: Axes, points: Mapping[str, tuple[Sequence[float], Sequence[float]]], laws: Mapping[str, PowerLaw],
    marks: Mapping[str, Mark], published: Sequence[tuple[Mark, Sequence[float], Sequence[float]]],
) -> None:  # fmt: skip
    """Draw seconds to the best schedule against nodes, log-log, with fitted lines; published ones hollow."""
    sizes = [size for of, _ in points.values() for size in of] + [size for _, of, _ in published for size in of]
    for mark, nodes, seconds in published:
        axes.plot(nodes, seconds, linestyle="none", marker=mark.marker, markersize=7, markerfacecolor="none",
                  markeredgecolor=mark.color, markeredgewidth=0.9)  # fmt: skip
    for method, (nodes, seconds) in points.items():
        mark, times = marks[method], np.maximum(seconds, FLOOR)
        axes.plot(nodes, times, linestyle="none", marker=mark.marker, markersize=4, color=mark.color, alpha=0.8)
        if method in laws:
            ends = np.array([min(nodes), max(nodes)], dtype=float)
            axes.plot(ends, laws[method].at(ends), color=mark.color, dashes=mark.dashes, linewidth=1.1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if sizes:
        axes.set_xlim(min(sizes) / 1.3, max(sizes) * 1.3)
    _plain(axes.xaxis, [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000])
    low, high = axes.get_ylim()
    wider = max(1.0, 10 * low / high) ** 0.5  # a decade at the least: smaller differences do not look large
    low, high = axes.set_ylim(low / wider, high * wider)
    _plain(axes.yaxis, [m * tick for tick in _TICKS for m in ((1, 2, 5) if high < 100 * low else (1,))])
    axes.set_xlabel("nodes")
    axes.set_ylabel("seconds to the best schedule")


def draw_cactus(axes: Axes, curves: Mapping[str, Steps], marks: Mapping[str, Mark], problems: int, end: float) -> None:
    """Draw the number of problems solved to a proof against seconds."""
    for method, solved in curves.items():
        _rise(axes, marks.get(method, VIRTUAL_BEST), np.maximum(solved.starts, _EARLIEST), solved.values, end)
    log_time(axes, _EARLIEST, end * 1.25)
    axes.set_ylim(0, problems * 1.04)
    axes.locator_params(axis="y", integer=True)
    axes.axhline(problems, color=INK, linewidth=0.6, alpha=0.5)
    axes.set_xlabel("seconds")
    axes.set_ylabel("problems solved")


def draw_profiles(
    axes: Axes, profiles: Mapping[str, Steps], marks: Mapping[str, Mark], label: str, percent: bool = False
) -> None:  # fmt: skip
    """Draw performance profiles: shares of problems against the factor to the best, or percent above the best."""
    most = max([profile.starts[-1] for profile in profiles.values() if len(profile.starts)], default=1.0)
    for method, profile in profiles.items():
        places, end = profile.starts, most * 1.3
        if percent:
            places, end = 100 * (places - 1), 100 * (end - 1)
        _rise(axes, marks[method], places, 100 * profile.values, end)
    if percent:
        axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)
        axes.set_xlim(0, max(0.2, 130 * (most - 1)))
    else:
        axes.set_xscale("log")
        axes.set_xlim(1, max(2.0, most * 1.15))
    _plain(axes.xaxis, [0, 0.1, 1, 10, 100, 1000] if percent else [1, 2, 5, 10, 20, 50, 100, 1_000, 10_000])
    axes.set_ylim(0, 104)
    axes.set_xlabel(label)
    axes.set_ylabel("% of problems")


def draw_gaps(axes: Axes, curves: Mapping[str, Curve], marks: Mapping[str, Mark], end: float) -> None:
    """Draw the median gap over problems against seconds."""
    for method, curve in curves.items():
        if len(curve.seconds):
            seconds, gaps = _extended(curve.seconds, curve.median, end)
            _step(axes, marks[method], seconds, gaps, markers=True)
    log_time(axes, _EARLIEST, end * 1.25)
    _gap_scale(axes.yaxis, axes.set_yscale, axes.set_ylim)
    axes.set_xlabel("seconds")
    axes.set_ylabel("median gap %")


def draw_shares(axes: Axes, curves: Mapping[str, Steps], marks: Mapping[str, Mark]) -> None:
    """Draw the shares of problems with a gap up to x at the end."""
    for method, shares in curves.items():
        _rise(axes, marks[method], shares.starts, 100 * shares.values, 100.0)
    _gap_scale(axes.xaxis, axes.set_xscale, axes.set_xlim)
    axes.set_ylim(0, 104)
    axes.set_xlabel("gap % at the end, at most")
    axes.set_ylabel("% of problems")


def _gap_scale(axis: Axis, set_scale: Callable[..., None], set_limits: Callable[..., object]) -> None:
    set_scale("symlog", linthresh=0.01, linscale=0.4)
    set_limits(-0.002, 115)
    _plain(axis, [0, 0.01, 0.1, 1, 10, 100])


def _rise(axes: Axes, mark: Mark, places: np.ndarray, values: np.ndarray, end: float) -> None:
    """Draw steps up from 0, extended to the end."""
    if len(places):
        _step(
            axes, mark, np.array([places[0], *places, max(end, places[-1])]), np.array([0, *values, values[-1]]), True
        )


def _step(axes: Axes, mark: Mark, seconds: np.ndarray, values: np.ndarray, markers: bool = False) -> None:
    axes.step(
        seconds, values, where="post", color=mark.color, dashes=mark.dashes, linewidth=1.3,
        marker=(mark.marker if markers else "") or "None", markersize=3.5, markevery=0.17,
    )  # fmt: skip


def log_time(axes: Axes, first: float, last: float) -> None:
    """Make the horizontal axis one of seconds, logarithmic, with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(first, max(last, 2 * first))
    _plain(axes.xaxis, _TICKS)


def _plain(axis: Axis, places: Sequence[float]) -> None:
    """Put ticks at these places only, with plain numbers."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:.0e}")
    axis.set_minor_locator(NullLocator())
