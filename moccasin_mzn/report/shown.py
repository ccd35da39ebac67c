"""What all answers share: figures as lines, a table in a notebook, a data frame, a picture."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Protocol

from moccasin_mzn.base.errors import require
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.vocabulary import Status
from moccasin_mzn.report.plots.files import Drawable, page_of, write_picture

if TYPE_CHECKING:
    from pandas import DataFrame

_PIXELS = 720


@dataclass(frozen=True)
class Drawing:
    """An interactive picture: a page of its own, which a notebook shows in a frame and which needs no network."""

    page: str
    """HTML."""

    def __repr__(self) -> str:
        return f"Drawing of {len(self.page):,} characters of HTML"

    def _repr_html_(self) -> str:
        frame = 'width="100%" style="border: 0"'
        return f'<iframe srcdoc="{html.escape(self.page)}" height="{_PIXELS}" {frame}></iframe>'


class Shown(ABC):
    """What shows its figures as lines, as a table in a notebook, and its parts as a data frame."""

    @abstractmethod
    def figures(self) -> dict[str, str]:
        """Return the figures for people, by name."""

    @abstractmethod
    def records(self) -> list[JsonObject]:
        """Return the rows of `to_frame`."""

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each part.

        Raises:
            InputError: pandas is not installed.
        """
        require("bench", "pandas")
        from pandas import DataFrame

        return DataFrame(self.records())

    def __repr__(self) -> str:
        return "\n".join(f"{what}: {value}" for what, value in self.figures().items())

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<tr><th style="text-align: left">{html.escape(what)}</th>'
            f'<td style="text-align: left">{html.escape(value)}</td></tr>'
            for what, value in self.figures().items()
        )
        return f"<table>{cells}</table>"


class Answer(Shown):
    """A result of a search."""

    @property
    def interrupted(self) -> bool:
        """True if an interrupt from the keyboard (Ctrl-C) ended the search: this is the best answer found by then."""
        return bool(getattr(self, "details").interrupted)  # noqa: B009  # only `ComparisonResult` has none


class _Proven(Protocol):
    """A result of a search with its proof."""

    @property
    def status(self) -> str: ...

    @property
    def bound(self) -> int: ...


class ProvenAnswer(Answer):
    """An answer with a status and a bound."""

    details: _Proven

    @property
    def status(self) -> Status:
        """The status, which is also its text: `result.status == "optimal"`."""
        return Status(self.details.status)

    @property
    def bound(self) -> int:
        """The lower bound on what is minimized: a duration or another objective, the peak of an order, the size of an
        arena."""
        return self.details.bound

    @property
    @abstractmethod
    def gap_percent(self) -> float | None:
        """The gap, 100 * (value - bound) / value of what is minimized; None without an answer."""


def drawn(picture: Drawable, path: str | PathLike[str] | None) -> Drawing | None:
    """Return a picture, or write it to a file if there is a path."""
    return Drawing(page_of(picture)) if path is None else write_picture(path, picture)
