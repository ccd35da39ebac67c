"""A request is the same after its way through JSON, whatever it asks, and a worker answers what was asked."""

from __future__ import annotations

import json

import pytest
from cases import draw_case
from hypothesis import given
from hypothesis import strategies as st

from moccasin_mzn.api.process import run_request
from moccasin_mzn.api.question import Question
from moccasin_mzn.api.request import AllocationRequest, Request, request_from_json
from moccasin_mzn.api.solve import answer
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.problem.platform import Action

EFFORTS = st.fixed_dictionaries(
    {},
    optional={
        "time_limit": st.floats(0.1, 1e6), "threads": st.integers(1, 64), "seed": st.integers(0, 2**31 - 1),
        "until_gap": st.floats(0, 0.5), "search": st.sampled_from(["on", "only"]),
    },
)  # fmt: skip
MEMORIES = {
    "paging": MemoryOptions(
        paging=True, slow_memory="50", page_out_time="0.25", objective="energy", max_duration="+50%"
    ),
    "devices": MemoryOptions(device=("gpu=90%", "cpu=100%:4"), copy_time="0.5", copy_latency="3"),
}


def again(request: Request | AllocationRequest) -> Request | AllocationRequest:
    text = request.to_json()
    json.loads(text)
    return request_from_json(text)


@given(seed=st.integers(0, 10**6), how=EFFORTS, in_place=st.booleans(), free=st.booleans(), most=st.integers(1, 9))
def test_a_request_for_a_schedule_is_the_same_again(seed, how, in_place, free, most):
    graph = draw_case(seed, workspaces=not in_place, in_place=in_place).graph
    problem = {"budget": 0.9, "max_computations": most, "warm_start": graph.input_order()}
    request = Question(**problem, order="free" if free else "input", how=how).request(graph)
    assert again(request) == request


@given(seed=st.integers(0, 10**6), how=EFFORTS, kind=st.sampled_from(sorted(MEMORIES)), aligned=st.booleans())
def test_a_request_for_a_plan_is_the_same_again(seed, how, kind, aligned):
    graph, memories = draw_case(seed).graph, MEMORIES[kind]
    start = tuple(Action(v) for v in graph.input_order())

    offsets = {"addresses": True, "alignment": 4} if aligned else {}
    problem = {"budget": None if memories.device else "80%", "max_computations": 3, "warm_start": start, **offsets}
    request = Question(**problem, how=how, memories=memories).request(graph)
    assert again(request) == request


def test_a_strategy_and_offsets_are_the_same_again():
    graph = draw_case(3).graph
    offsets = {"addresses": True, "alignment": 16}
    request = Question("90%", strategy="chen-greedy-ap", how={"time_limit": 5.0}, **offsets).request(graph)
    assert again(request) == request


def test_a_request_for_offsets_is_the_same_again():
    request = AllocationRequest("id,lower,upper,size\na,0,2,8\nb,1,3,4\n", 4, 10.0, 1, 7)
    assert again(request) == request
    with pytest.raises(InputError, match="threads"):
        AllocationRequest("", threads=0)
    attempt = run_request(request, hard_limit=60)
    assert (attempt.result["arena"], attempt.result["status"]) == (12, "optimal")


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(8))
def test_a_worker_answers_the_request(seed):
    case = draw_case(seed)
    how = {"if_none": "stop", "search": "only"}
    request = Question(max(1, case.budget), case.max_computations, how=how).request(case.graph)
    here, there = answer(request), run_request(request, hard_limit=100).result
    assert (there["status"], there["duration"], there["bound"]) == (here.status, here.duration, here.bound)
