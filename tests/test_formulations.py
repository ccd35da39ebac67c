"""Model files, and the translation between solutions of the models and sequences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import FORMULATIONS, PRECEDENCES, Formulation, decode, encode
from moccasin_mzn.instance import Instance
from moccasin_mzn.minizinc.dzn import dzn_text
from moccasin_mzn.presolve import presolve


@pytest.mark.parametrize("name", FORMULATIONS)
@pytest.mark.parametrize("precedence", PRECEDENCES)
@pytest.mark.parametrize("objective", ["duration", "peak"])
def test_every_model_file_is_there(name, precedence, objective):
    assert Formulation(name, precedence).model(objective).is_file()


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="unknown formulation 'stage', expected one of staged, general"):
        Formulation("stage")
    with pytest.raises(InputError, match="unknown precedence 'x', expected one of served-by, reservoir"):
        Formulation("staged", "x")


@settings(deadline=None)
@given(graphs(max_nodes=8), st.data())
def test_decode_is_the_inverse_of_encode(graph, drawn):
    instance = Instance.build(graph, max(1, graph.total_size))
    order, sequence = instance.order, []
    counts = dict.fromkeys(order, 1)
    for stage, v in enumerate(order):
        for u in order[:stage]:
            if counts[u] < 2 and drawn.draw(st.booleans()):
                sequence.append(u)
                counts[u] += 1
        sequence.append(v)
    for staged in (True, False):
        data = presolve(instance, staged=False)  # keeps every stage open
        data = type(data)(**{**vars(data), "max_computations": (2,) * len(order), "earliest_stage": (1,) * len(order)})
        intervals = encode(graph, data, sequence, staged)
        assert decode(data, intervals) == tuple(sequence)
        assert all(first <= last for first, last in zip(intervals.start, intervals.end, strict=True))
        assert sum(intervals.active) == len(sequence)


def test_dzn_text():
    data = {"n": 2, "yes": True, "numbers": (1, -2), "flags": [True, False], "none": ()}
    assert dzn_text(data) == "n = 2;\nyes = true;\nnumbers = [1, -2];\nflags = [true, false];\nnone = [];\n"
