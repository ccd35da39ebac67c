"""What operators of ONNX models are said to read is what they need: each runs with all else changed."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from access_judge import assert_needed, assert_sufficient, random_box, unlike
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from onnx_operator_cases import KINDS, cases

from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, trace_onnx

FEW, MANY = 4, 50
"""Random operators of each kind, by default and in all."""


def runner(model):
    """Runs a model in ONNX Runtime; in `onnx` where that has no such operator."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [value.name for value in model.graph.input]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, dict(zip(names, given, strict=True)))[0]


def judge(case, seed):
    random, model = np.random.default_rng(seed), case.model()
    try:
        run = runner(model)
        assert run(case.numbers(random)).size
    except Exception:  # of every type: ONNX Runtime has no such operator
        reject()
    graph = trace_onnx(model.SerializeToString(), "one", OnnxImport(isolated=False)).graph
    (operator,) = graph.operators
    if {"ceil_mode", "output_shape"} & case.about.keys() and run(case.numbers(random)).shape != operator.shape:
        reject()  # ONNX Runtime leaves out windows that begin in the padding, and may enlarge what it is told
    assert operator.name == (f"{case.domain}." if case.domain else "") + case.kind
    assert [read.source for read in operator.reads] == [None] * len(case.inputs)
    box = random_box(operator.shape, random)
    numbers = case.numbers(random)
    other = [unlike(random, each) for each in numbers]
    assert_sufficient(operator, run, numbers, other, box)
    if case.needed:
        assert_needed(operator, run, numbers, other, box)


def judge_many(kind, count):
    @settings(max_examples=count)
    @given(case=cases(kind), seed=st.integers(0, 2**32 - 1))
    def judged(case, seed):
        judge(case, seed)

    judged()


@pytest.mark.parametrize("kind", KINDS)
def test_operators_read_what_they_need(kind):
    judge_many(kind, FEW)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_many_operators_read_what_they_need(kind):
    judge_many(kind, MANY)
