"""Certificates of bounds: accepted by the judge, never above brute force, and complete where flow covers are exact."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases import draw_case
from oracle import fixed_order_schedule, free_order_schedule

from moccasin_mzn.base.files import parse_json
from moccasin_mzn.bounds.certificates.document import certificate, certificate_text, prove, prove_in_blocks
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import check_certificate
from moccasin_mzn.problem.stages import Stages

DATA = Path(__file__).resolve().parents[2] / "data"


def certified(graph, budget, sequence=None, order=None, stop=bool):
    """What the text of a certificate proves."""
    duration = None if sequence is None else sum(graph.durations[v] for v in sequence)
    text = certificate_text(certificate(prove(graph, budget, duration, stop, order), sequence))
    return check_certificate(graph.run_in_place(False), parse_json(text, "text"))


def stopping(asked):
    """Says so when it is asked so many times."""
    count = iter(range(asked))
    return lambda: next(count, None) is None


KINDS = {
    "plain": {}, "workspaces": {"workspaces": True}, "in place": {"in_place": True},
    "in place, workspaces": {"in_place": True, "workspaces": True},
}  # fmt: skip


def hold(seeds, kind):
    """How many optima above every node once are proven: in any order, and in the input order."""
    tight = [0, 0]
    for seed in seeds:
        case = draw_case(seed, **KINDS[kind])
        graph, order = case.graph, case.graph.input_order()
        free = free_order_schedule(graph, case.budget, 4)
        given = fixed_order_schedule(graph, order, case.budget, None)
        for at, (best, kept) in enumerate(((free, None), (given, order))):
            alone = certified(graph, case.budget, None, kept)
            assert alone.duration is None and (alone.bound is not None or best is None), seed
            if best is not None:
                proven = certified(graph, case.budget, best.sequence, kept)
                assert graph.total_duration <= proven.bound <= proven.duration == best.duration, seed
                assert alone.bound <= best.duration, seed
                early = certified(graph, case.budget, best.sequence, kept, stopping(seed % 50))
                assert graph.total_duration <= early.bound <= proven.bound, seed
                tight[at] += proven.bound == best.duration > graph.total_duration
    return tight


@pytest.mark.parametrize("kind", KINDS)
def test_certified_bounds_are_never_above_brute_force(kind):
    assert min(hold(range(60 if kind == "plain" else 30), kind)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_certified_bounds_are_never_above_brute_force_on_many_graphs(kind):
    assert min(hold(range(100, 1100), kind)) >= 100


def hold_in_blocks(seeds, kind):
    """How many optima above every node once are proven in blocks: those of schedules that keep the input order."""
    tight = 0
    for seed in seeds:
        case, rng = draw_case(seed, **KINDS[kind]), random.Random(seed)
        instance = Instance.build(case.graph, case.budget, max_computations=8)
        stages = Stages.of(instance.relaxed)
        chosen = rng.sample(range(stages.n), rng.randint(0, stages.n))
        relaxation = Relaxation.of(stages, chosen, range(stages.n) if rng.random() < 0.8 else ())
        best = fixed_order_schedule(case.graph, instance.order, case.budget, None)
        duration, sequence = (None, None) if best is None else (best.duration, best.sequence)
        for known, stop in ((duration, bool), (None, bool), (duration, stopping(seed % 5))):
            proof = prove_in_blocks(instance, relaxation, known, stop)
            document = parse_json(certificate_text(certificate(proof, sequence)), "text")
            proven = check_certificate(case.graph.run_in_place(False), document)
            assert proven.about == ("" if case.graph.overwritable is None else "in place")
            assert document["blocks"] and proven.scope.startswith("first computations in order")
            assert (proven.bound is not None) or best is None, seed
            if best is not None:
                assert case.graph.total_duration <= proven.bound <= best.duration, seed
        tight += best is not None and proven.bound == best.duration > case.graph.total_duration
    return tight


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_never_above_brute_force(kind):
    assert hold_in_blocks(range(60 if kind == "plain" else 30), kind) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_never_above_brute_force_on_many(kind):
    assert hold_in_blocks(range(100, 1100), kind) >= 60


def test_certified_bounds_can_be_stopped_at_any_moment():
    """Whatever is open has the bound of the case above it: the later it is stopped, the better."""
    graph = read_graph(DATA / "unet_training.json")
    instance = Instance.build(graph, "0.6")
    bounds = []
    for asked in (0, 40, 200, 400, 10_000):
        bounds.append(certified(graph, instance.budget, None, None, stopping(asked)).bound)
    assert bounds == sorted(bounds) and bounds[0] == graph.total_duration < bounds[-1]
    assert len(set(bounds)) > 2


@pytest.mark.parametrize(
    ("name", "budget", "tdi"),
    [
        ("unet_training", "0.8", 0.0784), ("unet_training", "0.7", 0.8214), ("unet_training", "0.6", 3.7005),
        ("paper/checkmate_fcn8_train", "0.9", 0.0294), ("paper/checkmate_fcn8_train", "0.8", 0.1361),
        ("paper/checkmate_fcn8_train", "0.7", 0.8914), ("paper/random_layered_n100", "0.9", 0.0),
        pytest.param("paper/checkmate_resnet50_train", "0.9", 0.1085, marks=pytest.mark.slow),
        pytest.param("paper/checkmate_resnet50_train", "0.8", 0.2786, marks=pytest.mark.slow),
        pytest.param("paper/checkmate_resnet50_train", "0.6", 0.9626, marks=pytest.mark.slow),
        pytest.param("paper/random_layered_n250", "0.7", 0.5662, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_optimum_is_proven_of_graphs_in_use(name, budget, tdi):
    path = DATA / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{name} is not here")
    graph = read_graph(path)
    found = certified(graph, Instance.build(graph, budget).budget)
    assert 100 * (found.bound / graph.total_duration - 1) == pytest.approx(tdi, abs=6e-5)
