"""The page of features is what the parts declare; a problem has the features of its data; refusals follow from both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from script_loading import load_script
from tiny_graphs import U_SHAPE

from moccasin_mzn.api.modes import WAYS, asked, refuse_ways
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.option import flag
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.problem.features import MODES, OF_ONE_MEMORY, OF_PROBLEMS, Ability, Feature, lacking, unhandled
from moccasin_mzn.problem.instance import Instance

PAGE = load_script("make_features_page")
CHANGES = {
    Feature.WORKSPACES: {"workspaces": (0, 3, 0, 0, 0, 0)},
    Feature.OUTPUTS: {
        "output_of": (None, None, None, 2, None, None),
        "edges": ((0, 1), (1, 2), (1, 3), (2, 4), (4, 5)),
    },
    Feature.IN_PLACE: {"in_place": ((), (0,), (), (), (), ()), "runs_in_place": True},
    Feature.SIDE_BY_SIDE: {"adjacent": ((), (), (), (), ((1, 3),), ())},
    Feature.PARTS: {"parts": [Part("a", ())] * 6},
}


def test_the_page_is_made_from_the_declarations():
    assert PAGE.PAGE.read_text() == PAGE.text(), "python scripts/make_features_page.py"


@pytest.mark.parametrize("feature", CHANGES, ids=lambda one: one.name)
def test_a_graph_has_the_features_of_its_data(feature):
    graph = replace(U_SHAPE, durations=(1, 1, 1, 0, 1, 1), **CHANGES[feature])
    assert Instance.build(graph, 9).features == {feature}
    assert Instance.build(U_SHAPE, 9).features == set()


def test_a_problem_has_the_features_of_its_question():
    assert Instance.build(U_SHAPE, 9, order="free").features == {Feature.ANY_ORDER}
    assert Instance.build(U_SHAPE, 9, max_computations=[1, 2, 1, 1, 1, 1]).features == {Feature.COUNTS}


def test_what_arguments_bring():
    given = {
        "in_place": True,
        "tile": None,
        "order": "free",
        "solver": "a,b",
        "budget": "least",
        "device": (),
        "memory": ("a=1",),
    }
    assert asked(given, flag) == {
        Feature.IN_PLACE: "--in-place", Feature.ANY_ORDER: "--order", Feature.RACE: "--solver",
        Feature.LEAST: "--budget", Feature.POOLS: "--memory",
    }  # fmt: skip


def test_every_way_of_asking_has_its_part():
    assert {way.of for way in WAYS} == MODES
    assert all(mode in way.handles for way in WAYS for mode in [way.of])
    assert all(part.handles <= OF_PROBLEMS for kind, part in PAGE.parts() if kind in ("search", "model", "judge"))


def test_a_refusal_names_a_least_set_and_what_to_leave_out():
    one, other = Ability("a", OF_ONE_MEMORY - {Feature.IN_PLACE}), Ability("b", OF_ONE_MEMORY - {Feature.OUTPUTS})
    assert unhandled(frozenset({Feature.IN_PLACE, Feature.ANY_ORDER}), (one, other)) == ()
    assert unhandled(OF_ONE_MEMORY, (one, other)) == (Feature.OUTPUTS, Feature.IN_PLACE)
    assert lacking(one, OF_ONE_MEMORY) == ("in place",)
    for pair in (
        (Feature.STRATEGY, Feature.POOLS),
        (Feature.OWN_MODEL, Feature.PAGING),
        (Feature.ZERO_COPY, Feature.TILE),
    ):
        with pytest.raises(InputError, match=f"^{pair[0].called} with|^{pair[1].called} with") as refused:
            refuse_ways(pair)
        assert all(flag(one.argument) in str(refused.value) for one in pair) and "\n" not in str(refused.value)
