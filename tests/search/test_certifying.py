"""Certificates of results: their scope, what is left to trust, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
from tiny_graphs import STRAY

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import check_certificate
from moccasin_mzn.search.certifying import _interruptible, certificate_of, trusted
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import TracePoint


def certified(budget=6, **problem):
    instance = Instance.build(STRAY, budget, **problem)
    return check_certificate(STRAY, certificate_of(solve_instance(instance, Options.of({})), 5.0))


def test_the_input_order_has_a_proof_of_its_own():
    """Its two pairs are interleaved; one after the other they need no recomputation."""
    proven = certified()
    assert (proven.bound, proven.duration, proven.trusted) == (5, 5, ())
    assert proven.scope == "first computations in order, any number of computations"


@pytest.mark.parametrize(("problem", "duration"), [({"order": "free"}, 4), ({"order": [0, 2, 1, 3]}, 4)])
def test_all_orders_where_the_bound_meets_the_schedule(problem, duration):
    proven = certified(**problem)
    assert (proven.bound, proven.duration, proven.trusted) == (duration, duration, ())
    assert proven.scope == "any order, any number of computations"


def test_certificate_that_there_is_no_schedule():
    proven = certified(3)
    assert (proven.bound, proven.duration) == (None, None) and proven.scope.startswith("any order")


@pytest.mark.parametrize(
    ("source", "by"),
    [
        ("relaxation", "CP-SAT, relaxation"), ("flow covers", "CP-SAT, flow covers"), ("cp-sat", "CP-SAT, the model"),
        ("moments", "CP-SAT, moments"), ("the instant bound", "the instant bound"), ("highs", "highs"),
        ("search, relaxation", "search, CP-SAT, relaxation"),
    ],
)  # fmt: skip
def test_certificate_names_the_trusted_solver_and_search(source, by):
    """Also where nothing is settled, of whoever improved the bound last."""
    result = solve_instance(Instance.build(STRAY, 6), Options.of({}))
    points = (TracePoint(0.1, None, 4, "another"), TracePoint(0.2, 6, 5, source), TracePoint(0.3, 5, 5, "a third"))
    for settled in (replace(result, proved_by=source), replace(result, status="feasible", proved_by="", trace=points)):
        assert [(one.by, one.bound) for one in trusted(settled)] == [(by, 5)]
    for trace in ((), (TracePoint(0.1, 5, 5, "who found an answer when the bound was there"), *points[2:])):
        assert trusted(replace(result, status="feasible", proved_by="", trace=trace)) == ()


def test_after_an_interrupted_search_the_proof_is_short_and_announced(caplog):
    result = solve_instance(Instance.build(STRAY, 6), Options.of({}))
    with caplog.at_level("INFO", logger="moccasin_mzn.notes"):
        for interrupted, limit in ((True, None), (False, None), (True, 2.0)):
            certificate_of(replace(result, interrupted=interrupted), limit)
    announced = [text for text in caplog.messages if text.startswith("proving a bound for the certificate")]
    assert announced == [
        f"proving a bound for the certificate, at most {seconds} s; Ctrl-C ends it" for seconds in (5, 60, 2)
    ]


def test_no_certificate_is_for_less_than_nothing():
    instance = Instance(STRAY, (0, 1, 2, 3), -1, (2,) * 4, fixed=7)
    with pytest.raises(InputError, match="budget of 0 or more, not -1"):
        certificate_of(solve_instance(instance, Options.of({})), 5.0)


def test_ctrl_c_ends_the_proof_and_keeps_what_is_proven():
    def work(stopped):
        while not stopped():
            time.sleep(0.01)
        return "so far"

    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    assert _interruptible(work) == "so far"
