"""What operators of TFLite models are said to read is what they need: each runs with all else changed."""

from __future__ import annotations

import numpy as np
import pytest
from access_judge import assert_needed, assert_sufficient, random_box, unlike
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tflite_operator_cases import KINDS, cases

from moccasin_mzn.graphs.importers.tflite import import_tflite

FEW, MANY = 3, 40
"""Random operators of each kind, by default and in all."""


def interpreter(data):
    """LiteRT's own kernels, without delegates."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(
        model_content=data,
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    made.allocate_tensors()
    return made


def run(made, given):
    """The output."""
    for about, value in zip(made.get_input_details(), given, strict=True):
        made.set_tensor(about["index"], value)
    made.invoke()
    return made.get_tensor(made.get_output_details()[0]["index"])


def judge(case, seed, folder):
    random = np.random.default_rng(seed)
    try:
        made = interpreter(case.model())
        shape = run(made, case.numbers(random)).shape
    except (RuntimeError, ValueError):  # LiteRT has no such operator
        reject()
    path = folder / "one.tflite"
    path.write_bytes(case.model(shape))
    operator, last = import_tflite(path, inputs_in_arena=False).operators
    assert last is None and operator.name == case.name
    assert [read.source for read in operator.reads] == [None] * len(case.inputs)
    box = random_box(operator.shape, random)
    numbers = case.numbers(random)
    other = [unlike(random, each) for each in numbers]
    assert_sufficient(operator, lambda given: run(made, given), numbers, other, box)
    if case.needed:
        assert_needed(operator, lambda given: run(made, given), numbers, other, box)


def judge_many(kind, count, folder):
    @settings(max_examples=count)
    @given(case=cases(kind), seed=st.integers(0, 2**32 - 1))
    def judged(case, seed):
        judge(case, seed, folder)

    judged()


@pytest.mark.parametrize("kind", KINDS)
def test_operators_read_what_they_need(kind, tmp_path):
    judge_many(kind, FEW, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_many_operators_read_what_they_need(kind, tmp_path):
    judge_many(kind, MANY, tmp_path)
