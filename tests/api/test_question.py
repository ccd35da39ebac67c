"""Options are declared once: commands, the function, experiments and requests have all of them."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
from tiny_graphs import U_SHAPE

import moccasin_mzn as mz
from moccasin_mzn.api.question import Question
from moccasin_mzn.api.request import request_from_json
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.option import options_of
from moccasin_mzn.bench import methods
from moccasin_mzn.cli.solve import solve
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.problem.options import ProblemOptions
from moccasin_mzn.search.options import model_options

OF_PROBLEMS, OF_MODELS, OF_MEMORIES = options_of(ProblemOptions), model_options(), options_of(MemoryOptions)
ALL = {**OF_PROBLEMS, **OF_MODELS, **OF_MEMORIES}


def test_no_option_is_declared_twice():
    assert len(ALL) == len(OF_PROBLEMS) + len(OF_MODELS) + len(OF_MEMORIES)


@pytest.mark.parametrize("name", ALL)
def test_the_command_has_each_option_as_declared(name):
    (parameter,) = (each for each in solve.params if each.name == name)
    assert parameter.help == ALL[name].help and parameter.multiple == ALL[name].multiple


@pytest.mark.parametrize("name", ALL)
def test_experiments_have_each_option_or_their_own_for_it(name):
    assert name in (*methods.MODEL_OPTIONS, *methods.OWN_KEYS, *methods.REFUSED, "strategy", "if_none")


@pytest.mark.parametrize("name", {**OF_PROBLEMS, **OF_MODELS})
def test_the_function_takes_each_option(name):
    """Its signature is written out, for its readers; options of some formulations and counted searches by keyword."""
    signature = inspect.signature(mz.solve)
    assert name in signature.parameters or name in mz.face.FormulationOptions.__annotations__ or name == "iterations"


def test_the_function_takes_nothing_else():
    others = {"graph", "stop", "on_progress", "interrupts", "own", "paging", "slow_memory", "devices", "copies",
              "memories", "goal"}  # fmt: skip
    assert set(inspect.signature(mz.solve).parameters) <= {*ALL, *others}


@pytest.mark.parametrize(
    "options",
    [{}, {"order": "free"}, {"in_place": True}, {"addresses": True, "alignment": 4}, {"strategy": "keep-all"},
     {"max_computations": 3, "search": "only"}, {"iterations": 9}, {"until_gap": "1%", "seed": 4}],
)  # fmt: skip
def test_options_of_the_search_reach_the_request_and_its_json(options):
    question = Question.of({"budget": 8, **options})
    request = question.request(U_SHAPE)
    assert request.options == question.options and request.alignment == question.offsets
    assert request_from_json(request.to_json()) == request


def test_what_is_known_without_a_graph_is_refused_without_one():
    for options in (
        {"budget": "8 apples"}, {"order": "free", "iterations": 0}, {"alignment": 4}, {"tile": "fine"},
        {"strategy": "dtr", "seed": 1}, {"zero_copy_concat": True, "tile": 2}, {"formulation": "dtr"},
        {"formulation": "checkmate-milp", "max_computations": 3},
    ):  # fmt: skip
        with pytest.raises(InputError):
            Question.of({"budget": 8, **options})


def test_a_question_has_no_other_options_than_those_declared():
    assert {part.name for part in fields(Question)} == {*OF_PROBLEMS, "how", "memories", "as_feature", "spelled"}


@pytest.mark.parametrize(
    "options",
    [{"tile": "4", "order": "topological"}, {"tile": "auto", "strategy": "dtr"}, {"tile": "auto", "model": "own.mzn"},
     {"strategy": "keep-all", "max_computations": "x"}],
)  # fmt: skip
def test_more_that_is_known_without_a_graph(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.mzn").write_text('include "staged.mzn";\n')
    with pytest.raises(InputError, match="^tile: |^tile auto |^max_computations is for models"):
        Question.of({"budget": 8, **options})


def test_the_least_budget_is_for_searches_not_for_exports(command, tmp_path):
    mz.write_graph(U_SHAPE, tmp_path / "g.json")
    status, out, err = command("export", tmp_path / "g.json", "--budget", "least", "-o", tmp_path / "new.json")
    assert (status, out) == (2, "") and "budget 'least'" in err and not (tmp_path / "new.json").exists()


def test_given_parts_have_a_limit_whoever_computes_them():
    operators = image_operators(200)
    sizes = [layer.elements for layer in operators]
    graph = mz.ComputationGraph(nodes=("a", "b"), durations=sizes, sizes=sizes, edges=[(0, 1)], operators=operators)
    for how in ({}, {"strategy": "keep-all"}):
        with pytest.raises(InputError, match="more than 20,000: give more rows"):
            mz.solve(graph, 1.0, tile=(1, 1), time_limit=1, **how)


def image_operators(side: int) -> list[Operator]:
    """Two layers of images."""
    shape = (side, side, 1)
    same = tuple(Reach(axis) for axis in range(3))
    return [Operator("a", shape, (Read(None, shape, same),)), Operator("b", shape, (Read(0, shape, same),))]
