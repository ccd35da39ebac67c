"""Pairs of features: every part that handles a pair, by itself and with all others, against one exact oracle."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from few import few
from soaking.exact import account as exact_account
from soaking.exact import best, in_scope
from soaking.exact_questions import (
    FIRST,
    devices,
    draw_graph,
    exact_graph,
    is_refusal,
    paging,
    pools,
    read_as_one,
)

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import FORMULATIONS, find_formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.problem.features import OF_GRAPHS, OF_ONE_MEMORY, Feature, graph_features, lacking
from moccasin_mzn.problem.instance import FREE, Instance
from moccasin_mzn.problem.judges.certificates import check_certificate
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.certifying import certificate_of
from moccasin_mzn.search.conclusion import known_at_once
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers import searchers

PAIRS = list(combinations([one for one in Feature if one in OF_ONE_MEMORY], 2))
QUESTIONS = 40
NODES = 7
TURNS = 100
"""Times that a search asks whether it is to end, after which it is."""
KNOWN = 10
"""One question in this number is asked as drawn, known at once or not; the others are open when a search begins."""


def drawn(rng: random.Random, wanted: frozenset[Feature], is_open: bool = False) -> Instance:
    """A random instance that has at least these features, and that no bound settles beforehand if it is to be open."""
    while True:
        graph = made(rng, draw_graph(rng, NODES), wanted)
        if graph is None or not wanted & OF_GRAPHS <= graph_features(graph):
            continue
        tiny = exact_graph(graph)
        low, high = max(1, *graph.working_sets), max(1, exact_account(tiny, tiny.order).peak)
        budget = rng.choice([low, max(low, high - 1), rng.randint(low, max(low, high - 1)), high])
        counts: int | list[int] = rng.choice([1, 2, 2, 3])
        if Feature.COUNTS in wanted:
            counts = [rng.choice([1, 2, 3]) for _ in graph.nodes]
        order = FREE if Feature.ANY_ORDER in wanted or rng.random() < 0.3 else "input"
        instance = Instance.build(graph, budget, max_computations=counts, order=order)
        if wanted <= instance.features and not (is_open and known_at_once(instance)):
            return instance


def made(rng: random.Random, graph: ComputationGraph, wanted: frozenset[Feature]) -> ComputationGraph | None:
    """The graph with parts, or with inputs that are read as one, if that is wanted and can be had."""
    if Feature.PARTS in wanted:
        graph = replace(graph, parts=[Part(str(node), ()) for node in graph.nodes])
    return read_as_one(rng, graph) if Feature.SIDE_BY_SIDE in wanted else graph


def runner_of(instance: Instance, form: str, some: Sequence[Searcher], search: str) -> Runner:
    """What runs some of the searches, which ask a few times whether to go on."""
    left = iter(range(TURNS))
    options = Options(formulation=form, search=search, threads=1, seed=0, if_none="stop", time_limit=10.0)
    return Runner(
        board=Board(instance, time.monotonic()), options=options, form=options.form, searchers=some,
        call=Call(stop=lambda: next(left, None) is None),
    )  # fmt: skip


def run(instance: Instance, form: str, some: Sequence[Searcher], search: str) -> Result:
    """What some of the searches find and prove."""
    runner = runner_of(instance, form, some, search)
    runner.run()
    return runner.result()


def flaws(instance: Instance, found) -> list[str]:
    """What is wrong with an answer and its claims."""
    tiny, most = exact_graph(instance.graph), instance.counts
    form = found.formulation
    mode = "free" if instance.free_order or not form.staged else "first" if FIRST in found.reason else "staged"
    counts = most if form.limited else None
    exact = best(tiny, instance.budget, mode, counts)
    wrong = []
    if found.status == "infeasible" and exact is not None:
        wrong.append(f"infeasible, but {exact}: {found.reason}")
    if exact is not None and found.bound > exact[0]:
        wrong.append(f"bound {found.bound}, but {exact}")
    if found.sequence is not None and found.valid:
        judged = exact_account(tiny, found.sequence)
        if judged.flaw or judged.peak > instance.budget or judged.duration != found.duration:
            wrong.append(f"{found.sequence} is {judged}")
        elif form.limited and not in_scope(tiny, found.sequence, "free", most):
            wrong.append(f"{found.sequence} computes a node too often")
        if found.status == "optimal" and (exact is None or found.duration > exact[0]):
            wrong.append(f"optimal with {found.duration}, but {exact}")
    return wrong


def named(value: object) -> str:
    some = value if isinstance(value, tuple) else (value,)
    return "-".join(one.name.lower() if isinstance(one, Feature) else str(one) for one in some)


ASKED = few([(pair, at) for pair in PAIRS for at in range(QUESTIONS)], keep=14)


@pytest.mark.parametrize(("pair", "number"), ASKED, ids=named)
def test_whatever_handles_two_features_is_right_about_both(pair, number):
    rng = random.Random(f"{pair} {number}")
    instance = drawn(rng, frozenset(pair), is_open=number % KNOWN > 0)
    if (known := known_at_once(instance)) is not None:  # no search begins
        exact = best(exact_graph(instance.graph), instance.budget, "staged", instance.counts)
        assert (exact is None) == (known[0] == "infeasible") and (
            exact is None or exact[0] == sum(instance.graph.durations)
        )
        return
    every, form = searchers(), "general" if number % 2 else "staged"
    ways = [[one] for one in every if not one.is_model and one.applies(runner_of(instance, form, every, "only"))]
    for some in [*ways, every]:
        found = run(instance, form, some, "only")
        assert flaws(instance, found) == [], [one.name for one in some]
        assert set(found.skipped) <= {"windows"}, "each search handles all of one memory"


@pytest.mark.parametrize(("pair", "number"), few([(pair, at) for pair in PAIRS for at in range(8)], keep=6), ids=named)
def test_models_that_handle_two_features_are_right_about_both(pair, number):
    rng = random.Random(f"model {pair} {number}")
    instance = drawn(rng, frozenset(pair))
    for form in FORMULATIONS:
        chosen = find_formulation(form.name)
        if instance.free_order and chosen.staged:
            continue
        if lacking(chosen, instance.features):
            with pytest.raises(InputError, match="does not handle"):
                chosen.refuse_others(instance)
            continue
        options = Options(formulation=form.name, search="off", threads=1, seed=0, if_none="stop", time_limit=60.0)
        counts = instance if chosen.limited else replace(instance, max_computations=(1000,) * len(instance.order))
        found = solve_instance(counts, options)
        assert found.status in ("optimal", "infeasible") and flaws(counts, found) == [], form.name


@pytest.mark.parametrize(("pair", "number"), few([(pair, at) for pair in PAIRS for at in range(12)], keep=6), ids=named)
def test_certificates_of_two_features_are_right_about_both(pair, number):
    instance = drawn(random.Random(f"certificate {pair} {number}"), frozenset(pair), is_open=number % KNOWN > 0)
    form, given = "general" if number % 2 else "staged", instance.graph.run_in_place(False)
    found = run(instance, form, [one for one in searchers() if not one.is_model], "only")
    proven = check_certificate(given, certificate_of(found, 1.0, given))
    mode = "free" if proven.scope.startswith("any order") else "first"
    exact = best(exact_graph(instance.graph), instance.budget, mode, None)
    assert exact is None if proven.bound is None else exact is None or proven.bound <= exact[0]
    assert proven.duration == (found.duration if found.valid else None)
    assert proven.about == ("in place" if instance.graph.overwritable is not None else "")


OF_SEVERAL = {"paging": paging, "devices": devices, "pools": pools}
BESIDES = [one for one in Feature if one in OF_GRAPHS | {Feature.ANY_ORDER}]
SEVERAL = [(name, other, number) for name in OF_SEVERAL for other in BESIDES for number in range(QUESTIONS)]


@pytest.mark.parametrize(
    ("name", "other", "number"), few(SEVERAL, keep=2), ids=lambda value: getattr(value, "name", str(value))
)
def test_plans_are_right_about_what_they_handle(name, other, number):
    for attempt in range(20):
        try:
            assert OF_SEVERAL[name](random.Random(f"{name} {other} {number} {attempt}"), frozenset({other})).flaws == []
        except InputError as refusal:
            if not is_refusal(refusal):
                raise
        except MemoryError:  # of the oracle
            continue
        else:
            return
