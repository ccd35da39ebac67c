"""Writes docs/features.md from what each part declares: which features it handles, and which pairs nothing does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from moccasin_mzn.api.modes import WAYS, refuse_ways
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.formulations.windows import WINDOWS
from moccasin_mzn.machine.addresses.joint import JOINT
from moccasin_mzn.machine.problems import PLAN_FORMULATIONS
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
key `skipped` of `--json` shows, and what nothing handles is refused in one sentence. Pairs are listed; three features
or more are refused where a pair of them is.

"""


def parts() -> Iterator[tuple[str, Component]]:
    """All parts, each with its kind."""
    yield from (("judge", judge) for judge in JUDGES)
    yield from (("search", searcher) for searcher in searchers() if not searcher.is_model)
    yield from (("model", form) for form in FORMULATIONS)
    yield from (("model", form()) for form in PLAN_FORMULATIONS)
    yield from (("model", part) for part in (WINDOWS, JOINT))
    yield from (("way of asking", way) for way in WAYS)


def table(heading: str, rows: list[list[str]]) -> str:
    """A table in Markdown; the first row has the headings."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return (
        f"## {heading}\n\n" + "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]) + "\n"
    )


def refused() -> list[tuple[str, str, str]]:
    """Pairs of features that nothing handles, by their names, each with the reason.

    A pair that follows from another one is left out: other goals are for several memories, and taking out
    concatenations has outputs side by side. What holds for all kinds of several memories is one pair.
    """
    found: dict[tuple[Feature, Feature], str] = {}
    for pair in combinations(Feature, 2):
        if Feature.GOALS in pair and any(other in pair for other in OF_ONE_MEMORY | MODES - {Feature.FRONTIER}):
            continue
        try:
            refuse_ways(pair)
        except InputError as error:
            found[pair] = Page.before(str(error)).partition(": ")[2].partition(": leave out")[0]
    with_several = {other: [one for one, of in found if of is other and one in SEVERAL_MEMORIES] for _, other in found}
    rows: dict[tuple[str, str], str] = {}
    for (one, other), why in found.items():
        if Feature.ZERO_COPY in (one, other) and (Feature.SIDE_BY_SIDE, *{one, other} - {Feature.ZERO_COPY}) in found:
            continue
        all_kinds = one in SEVERAL_MEMORIES and len(with_several[other]) == len(SEVERAL_MEMORIES)
        rows["several memories" if all_kinds else one.called, other.called] = why
    return [(*pair, why) for pair, why in rows.items()]


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
    pairs = [["features", "with", "why"], *(list(row) for row in refused())]
    return (
        HEAD + table("The features", features) + "\n" + table("Which part handles what", handled) + "\n"
        + table(f"The {len(pairs) - 1} pairs that nothing handles", pairs)
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(text())
