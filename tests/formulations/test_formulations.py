"""Model files, and the translation between solutions of the models and sequences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import decode, encode, find_formulation, staged_events
from moccasin_mzn.formulations.moccasin import INDEX, PRECEDENCE
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.dzn import dzn_text


@pytest.mark.parametrize("precedence", PRECEDENCE.choices)
@pytest.mark.parametrize("objective", ["duration", "peak"])
def test_every_model_file_is_there_and_each_has_its_own(precedence, objective):
    kinds = [("staged", {}), ("general", {}), ("staged", {"index": "triangular"})]
    models = {find_formulation(name, precedence=precedence, **more).model(objective) for name, more in kinds}
    assert len(models) == len(kinds)
    assert all(model.is_file() for model in models)


def test_the_published_formulation_has_no_redundant_constraints():
    text = find_formulation("staged", precedence="reservoir", index="triangular").model("duration").read_text()
    assert "reservoir.mzn" in text and "staged_triangular.mzn" in text
    assert "cover" not in text and "critical_stages" not in text


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="unknown formulation 'stage', expected one of staged, general"):
        find_formulation("stage")
    with pytest.raises(InputError, match="unknown precedence 'x', expected one of served-by, reservoir"):
        find_formulation("staged", precedence="x")
    with pytest.raises(InputError, match="unknown index 'square', expected one of affine, triangular"):
        find_formulation("staged", precedence="reservoir", index="square")


def test_free_events_have_no_triangular_index():
    with pytest.raises(
        InputError, match="the triangular index numbers staged events, the general formulation has free"
    ):
        find_formulation("general", precedence="reservoir", index="triangular")


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
    data = presolve(instance, staged=False)  # keeps every stage open
    data = type(data)(**{**vars(data), "max_computations": (2,) * len(order), "earliest_stage": (1,) * len(order)})
    for staged, index in [*((True, index) for index in INDEX.choices), (False, "affine")]:
        intervals = encode(graph, data, sequence, staged, index)
        assert decode(data, intervals) == tuple(sequence)
        assert all(first <= last for first, last in zip(intervals.start, intervals.end, strict=True))
        assert sum(intervals.active) == len(sequence)


def test_staged_events():
    """The two indices, on the pictures in `models/lib/staged.mzn` and `models/lib/staged_triangular.mzn`."""
    graph = ComputationGraph(range(4), [1] * 4, [1] * 4, [(0, 1), (1, 2), (2, 3)])
    data = presolve(Instance.build(graph, 2), staged=True)
    everything = [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert staged_events(data, everything) == [1, 5, 6, 9, 10, 11, 13, 14, 15, 16]
    assert staged_events(data, everything, "triangular") == list(range(1, 11))
    assert staged_events(data, [0, 1, 2, 1, 3], "triangular") == [1, 3, 6, 8, 10]


def test_dzn_text():
    data = {"n": 2, "yes": True, "numbers": (1, -2), "flags": [True, False], "none": (), "few": {2, 1}}
    lines = "n = 2;\nyes = true;\nnumbers = [1, -2];\nflags = [true, false];\nnone = [];\nfew = {1, 2};\n"
    assert dzn_text(data) == lines
