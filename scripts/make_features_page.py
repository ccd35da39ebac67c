"""Writes docs/features.md from what each part declares: which features it handles, and which pairs nothing does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from moccasin_mzn.api.modes import WAYS, refuse_ways
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.extensions.addresses.joint import JOINT
from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.extensions.pools.formulation import PoolsFormulation
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.formulations.windows import WINDOWS
from moccasin_mzn.problem.features import (
    JUDGES,
    MODES,
    OF_ONE_MEMORY,
    OF_PROBLEMS,
    SEVERAL_MEMORIES,
    Component,
    Feature,
)
from moccasin_mzn.search.searchers import searchers

PAGE = Path(__file__).resolve().parents[1] / "docs" / "features.md"
HEAD = """\
# Features

What a question can have, and which part of the program handles it. This page is made from the declarations
(`python scripts/make_features_page.py`): each search, model, judge and way of asking has one line, `handles`, with the
features that it takes into account. A search that does not handle a feature of the problem is left out, as the
key `skipped` of `--json` shows, and what nothing handles is refused in one sentence.

"""


def parts() -> Iterator[tuple[str, Component]]:
    """All parts, each with its kind."""
    yield from (("judge", judge) for judge in JUDGES)
    yield from (("search", searcher) for searcher in searchers() if not searcher.is_model)
    yield from (("model", form) for form in FORMULATIONS)
    yield from (("model", form) for form in (PagingFormulation(), DevicesFormulation(), PoolsFormulation()))
    yield from (("model", part) for part in (WINDOWS, JOINT))
    yield from (("way of asking", way) for way in WAYS)


def table(heading: str, rows: list[list[str]]) -> str:
    """A table in Markdown; the first row has the headings."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return (
        f"## {heading}\n\n" + "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]) + "\n"
    )


def refused() -> list[tuple[Feature, Feature, str]]:
    """Pairs of features that nothing handles, each with the reason.

    Other goals are for several memories, and pairs with those are named once; there, several outputs are one.
    """
    found = []
    for pair in combinations(Feature, 2):
        if Feature.GOALS in pair and any(other in pair for other in OF_ONE_MEMORY | MODES - {Feature.FRONTIER}):
            continue
        if pair[0] is Feature.OUTPUTS and pair[1] in SEVERAL_MEMORIES:
            continue
        try:
            refuse_ways(pair)
        except InputError as error:
            found.append((*pair, Page.before(str(error)).partition(": ")[2].partition(": leave out")[0]))
    return found


def _brought_by(feature: Feature) -> str:
    others = {Feature.LEAST: "`budget`, as `least`", Feature.FRONTIER: "the command `frontier`"}
    return f"`{feature.argument}`" if feature.argument else others.get(feature, "the graph")


def text() -> str:
    """The page."""
    of_problems = [one for one in Feature if one in OF_PROBLEMS]
    features = [["feature", "brought by", "what it is"]]
    features += [[one.called, _brought_by(one), one.description] for one in Feature]
    handled = [["part", "kind", *(one.called for one in of_problems)]]
    handled += [
        [part.name, kind, *("x" if one in part.handles else "" for one in of_problems)] for kind, part in parts()
    ]
    pairs = [["features", "with", "why"], *([one.called, other.called, why] for one, other, why in refused())]
    return (
        HEAD + table("The features", features) + "\n" + table("Which part handles what", handled) + "\n"
        + table(f"The {len(pairs) - 1} pairs that nothing handles", pairs)
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(text())
