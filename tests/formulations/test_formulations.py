"""Model files, and the translation between solutions of the models and sequences."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import decode, encode, find_formulation, staged_events
from moccasin_mzn.formulations.moccasin import INDEX
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.run import Member, dzn_text, json_text


def choices(name, objective="duration", **own):
    return find_formulation(name, **own).choices(objective)


def test_forms_of_a_model_are_in_its_data():
    assert find_formulation("staged").file.name == "staged.mzn" and find_formulation("general").file.is_file()
    assert choices("staged") == choices("general") == choices("checkmate-milp") == {}
    published = choices("staged", "peak", precedence="reservoir", index="triangular")
    assert published == {"phase": "PEAK", "precedence": "RESERVOIR", "index": "TRIANGULAR"}
    assert dzn_text(published) == "phase = PEAK;\nprecedence = RESERVOIR;\nindex = TRIANGULAR;\n"
    assert dzn_text(choices("general", branching="by-solver")) == "branching = BY_SOLVER;\n"
    assert choices("checkmate-milp-strengthened") == {"memory": "ALIVE"}


@pytest.mark.parametrize(
    ("name", "redundant", "groups"),
    [
        ("staged", "all", {"COVER", "CRITICAL", "ORDER"}), ("staged", "none", set()), ("staged", "cover", {"COVER"}),
        ("staged", "cover, order", {"COVER", "ORDER"}), ("staged", "-cover", {"CRITICAL", "ORDER"}),
        ("staged", "-cover,order", {"CRITICAL"}), ("staged", "-cover,-order", {"CRITICAL"}),
        ("general", "-order", set()),
    ],
)  # fmt: skip
def test_redundant_constraints_are_chosen_by_group(name, redundant, groups):
    form = find_formulation(name, redundant=redundant)
    assert {group.upper() for group in form.groups()} == groups
    assert form.choices("duration").get("redundant", groups) == groups


def test_groups_of_constraints_that_are_not_there_are_refused():
    with pytest.raises(InputError, match="redundant 'covers': staged has cover, critical, order, expected some of"):
        find_formulation("staged", redundant="covers")
    with pytest.raises(InputError, match="redundant 'cover': general has order, expected"):
        find_formulation("general", redundant="cover")
    with pytest.raises(InputError, match="unknown presolve 'x', expected one of on, off"):
        find_formulation("staged", presolve="x")


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
    """The two indices, on the picture in `models/lib/staged.mzn`."""
    graph = ComputationGraph(range(4), [1] * 4, [1] * 4, [(0, 1), (1, 2), (2, 3)])
    data = presolve(Instance.build(graph, 2), staged=True)
    everything = [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert staged_events(data, everything) == [1, 5, 6, 9, 10, 11, 13, 14, 15, 16]
    assert staged_events(data, everything, "triangular") == list(range(1, 11))
    assert staged_events(data, [0, 1, 2, 1, 3], "triangular") == [1, 3, 6, 8, 10]


def test_dzn_text():
    data = {"n": 2, "yes": True, "numbers": (1, -2), "flags": [True, False], "none": (), "set": frozenset((3, 1))}
    text = "n = 2;\nyes = true;\nnumbers = [1, -2];\nflags = [true, false];\nnone = [];\nset = {1, 3};\n"
    assert dzn_text(data) == text
    told = {"name": ["a", 'b"c\\'], "form": Member("FREE"), "forms": {Member("B"), Member("A")}}
    assert dzn_text(told) == 'name = ["a", "b\\"c\\\\"];\nform = FREE;\nforms = {A, B};\n'
    in_json = json.loads(json_text({**data, **told}))
    assert in_json["set"] == {"set": [1, 3]} and in_json["form"] == {"e": "FREE"} and in_json["yes"] is True
