"""Certificates of bounds: accepted by the judge, never above brute force, and complete where flow covers are exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import draw_case
from oracle import free_order_schedule

from moccasin_mzn.bounds.certificates.document import certificate_text, make_certificate
from moccasin_mzn.files import parse_json
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import CertificateError, Trust, check_certificate

ROOT = Path(__file__).resolve().parents[2]


def certified(graph, budget, sequence=None, stop=lambda: False, trusted=()):
    """What the text of a certificate proves."""
    text = certificate_text(make_certificate(graph, budget, sequence, stop, trusted))
    return check_certificate(graph, parse_json(text, "text"))


def hold(seeds, workspaces):
    tight = 0
    for seed in seeds:
        case = draw_case(seed, workspaces=workspaces)
        best = free_order_schedule(case.graph, case.budget, 4)
        alone = certified(case.graph, case.budget)
        assert alone.duration is None
        if best is None:
            continue
        proven = certified(case.graph, case.budget, best.sequence)
        assert alone.bound is not None and alone.bound <= best.duration, seed
        assert case.graph.total_duration <= proven.bound <= proven.duration == best.duration, seed
        tight += proven.bound == best.duration
    return tight


@pytest.mark.parametrize("workspaces", [False, True])
def test_never_above_brute_force(workspaces):
    assert hold(range(30), workspaces) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("workspaces", [False, True])
def test_never_above_brute_force_on_many(workspaces):
    assert hold(range(100, 1100), workspaces) >= 500
