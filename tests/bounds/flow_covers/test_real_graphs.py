"""Bounds for any order on training graphs that ship: no weaker than what is known to be possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.instance import Instance

DATA = Path(__file__).resolve().parents[3] / "data"
GRAPHS = {
    "CM 1": DATA / "paper" / "checkmate_fcn8_train.json",
    "CM 2": DATA / "paper" / "checkmate_resnet50_train.json",
    "U-Net": DATA / "unet_training.json",
}
PRICES = {("CM 1", "0.8"): 0.080, ("CM 1", "0.7"): 0.217, ("CM 2", "0.7"): 0.555, ("CM 2", "0.5"): 1.489,
          ("U-Net", "0.7"): 0.821, ("U-Net", "0.6"): 3.399, ("U-Net", "0.5"): 8.356}  # fmt: skip
"""Percent of the duration of every node once: the best price at one node."""
COVERS = {("CM 1", "0.9"): 0.029, ("CM 1", "0.8"): 0.136, ("CM 1", "0.7"): 0.891,
          ("CM 2", "0.9"): 0.108, ("CM 2", "0.8"): 0.279, ("CM 2", "0.7"): 0.564, ("CM 2", "0.6"): 0.963,
          ("CM 2", "0.5"): 1.499, ("U-Net", "0.8"): 0.078, ("U-Net", "0.7"): 0.821,
          ("U-Net", "0.6"): 3.700, ("U-Net", "0.5"): 9.087}  # fmt: skip
"""With flow cover inequalities."""
OPTIMA = {("CM 1", "0.7"): 10366941963904}
"""Durations of schedules, any number of computations."""


def instance_of(name: str, budget: str) -> Instance:
    if not GRAPHS[name].exists():
        pytest.skip(f"{GRAPHS[name].name} is not here")
    return Instance.build(read_graph(GRAPHS[name]), budget)


def percent(bound: int, instance: Instance) -> float:
    return round(100 * bound / instance.graph.total_duration, 3)


@pytest.mark.parametrize(("name", "budget"), PRICES)
def test_prices_alone_bound_published_graphs(name, budget):
    instance = instance_of(name, budget)
    moments, graph = Moments(MomentNetwork(instance.graph)), instance.graph
    highest = sorted(range(len(graph.nodes)), key=lambda v: -moments.least(v) - moments.own[v])[:20]
    cuts = [moments.priced(v, instance.budget) for v in highest]
    best = max(cut.bound(instance.budget) for cut in cuts if cut is not None)
    assert percent(best * moments.unit, instance) >= PRICES[name, budget]


@pytest.mark.few(4)
@pytest.mark.parametrize(("name", "budget", "least"), [(*row, COVERS[row]) for row in COVERS])
def test_covers_bound_published_graphs(name, budget, least):
    instance = instance_of(name, budget)
    found = [0.0]

    def note(bound: int, limited: bool) -> None:
        found[0] = percent(bound - instance.graph.total_duration, instance)

    bounds = FreeOrderBound.of(instance.graph)
    bounds.improve(instance.budget, time_limit=120, on_bound=note, stop=lambda: found[0] >= least)
    assert found[0] >= least


@pytest.mark.full
@pytest.mark.parametrize(("budget", "least"), [("0.7", 3.943), ("0.6", 8.025)])
def test_first_a_look_at_all_nodes(budget, least):
    """Of 1,000 nodes, before programs that take long are solved."""
    instance = Instance.build(read_graph(DATA / "paper" / "random_layered_n1000.json"), budget)
    moments = Moments(MomentNetwork(instance.graph))
    covers = Covers(moments, list(range(len(instance.graph.nodes))))
    search = CoverSearch(covers, instance.budget, Deadline(600), lambda bound: None, bool)
    search._look_around()
    assert percent(search.bound * moments.unit, instance) >= least


@pytest.mark.parametrize(("name", "budget"), OPTIMA)
def test_what_schedules_take_is_never_less(name, budget):
    instance = instance_of(name, budget)
    best = OPTIMA[name, budget]
    assert FreeOrderBound.of(instance.graph).improve(instance.budget, time_limit=60, incumbent=lambda: best) == best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "budget", "best"),
    [("paper/random_layered_n100.json", "0.7", 48793), ("rw/randwire_n442.json", "0.9", 5030313464)],
)
def test_moments_prove_what_covers_cannot(path, budget, best):
    """The second only with precedences."""
    instance = Instance.build(read_graph(DATA / path), budget)
    assert FreeOrderBound.of(instance.graph).improve(instance.budget, time_limit=300, incumbent=lambda: best) == best
