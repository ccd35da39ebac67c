"""The page of baselines has every formulation and every strategy, and its figures are those that were measured."""

from __future__ import annotations

import re

from documents import ROOT, page

from moccasin_mzn.formulations.catalogue import FORMULATIONS
from moccasin_mzn.strategies import strategies

TEXT = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
TABLE = re.search(r"^\| method \|.*?\n\n", TEXT, re.M | re.S)[0].strip()


def test_every_method_has_a_row():
    told = {name for row in TABLE.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert told == {method.name for method in (*FORMULATIONS, *strategies())}


def test_every_figure_was_measured():
    printed = "".join(block.text for block in page("docs/baselines.md").blocks)
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") + printed
    figures = set(re.findall(r"(?<![\d.])\d+\.\d{2,}(?![\d.])", TABLE))
    assert len(figures) > 20
    assert {figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", measured)} == set()
