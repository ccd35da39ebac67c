"""Options that mean the same as in `solve` are declared once: plans have their names, checks and messages."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest
from tiny_graphs import U_SHAPE

import moccasin_mzn as mz
from moccasin_mzn.base import vocabulary
from moccasin_mzn.base.option import options_of
from moccasin_mzn.cli.run import torch as command
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.problem.options import ProblemOptions
from moccasin_mzn.pytorch.options import StepArguments, StepOptions
from moccasin_mzn.search.options import Effort, Options, model_options

torch = pytest.importorskip("torch")

from moccasin_mzn.pytorch import estimate, largest_batch, plan  # noqa: E402 (only with PyTorch)
from moccasin_mzn.pytorch.compiling import backend  # noqa: E402
from moccasin_mzn.pytorch.planning import PlanArguments  # noqa: E402

INPUT = torch.zeros(2, 3)
ASKED = {
    "plan": lambda **given: plan(torch.nn.Linear(3, 1), (INPUT,), budget=1.0, **given),
    "estimate": lambda **given: estimate(torch.nn.Linear(3, 1), (INPUT,), least=False, **given),
    "largest_batch": lambda **given: largest_batch(torch.nn.Linear(3, 1), lambda n: (INPUT,), "1MiB", **given),
    "backend": lambda **given: backend(0.5, **given),
}
FUNCTIONS = {"plan": plan, "estimate": estimate, "largest_batch": largest_batch, "backend": backend}
WRONG = {
    "time_limit": (0, -1, "soon", float("nan")), "threads": (0, 1.5, "all"), "seed": (-1, 2**31, 0.5, "one"),
    "until_gap": ("much", 1.0, -0.1), "search": ("offf", "Only"), "solver": ("", "cp-sat,cp-sat"),
    "formulation": ("stagd",), "like": ("staged",), "if_none": ("moree",), "precedence": ("soon",),
    "index": ("square",), "branching": ("wild",), "redundant": ("everything",), "presolve": ("maybe",),
    "two_phase": (True,),
}  # fmt: skip
OF_EFFORT = tuple(options_of(Effort))


def refusal(ask, **given) -> str:
    with pytest.raises(mz.InputError) as refused:
        ask(**given)
    return str(refused.value)


def questions() -> list[tuple[str, str, object]]:
    doors = {name: ASKED if name in OF_EFFORT else ("plan", "backend") for name in model_options()}
    return [(door, name, value) for name in doors for value in WRONG.get(name, ()) for door in doors[name]]


@pytest.mark.parametrize(("door", "name", "value"), questions())
def test_nonsense_is_refused_as_solve_refuses_it(door, name, value):
    given = {name: value} if name != "two_phase" else {name: value, "formulation": "checkmate-milp"}
    assert refusal(ASKED[door], **given) == refusal(lambda **one: mz.solve(U_SHAPE, 8, **one), **given)


def test_every_option_of_the_search_is_asked_about():
    """An option that is added to the declarations has to be refused as `solve` does, or the list above is short."""
    assert {*model_options()} - {*WRONG} == {"iterations", "model"}  # for plans the latter is the network


@pytest.mark.parametrize("door", ["plan", "backend"])
def test_iterations_are_refused_however_they_are_given(door):
    assert refusal(ASKED[door], iterations=9) == (
        "stop: Iterations is not for plans of networks, whose operators are measured"
    )
    if door == "plan":
        both = refusal(ASKED[door], iterations=None, stop=mz.stop.Iterations(9))
        assert both == refusal(ASKED[door], iterations=9)


@pytest.mark.parametrize("door", FUNCTIONS)
def test_functions_list_what_is_declared(door):
    """Signatures are written out, for their readers."""
    parameters = inspect.signature(FUNCTIONS[door]).parameters
    assert {*OF_EFFORT} <= {*parameters} or door == "backend"
    declared = {one.name: one for one in fields(StepOptions)}
    for name in declared.keys() & parameters.keys() - {"budget", "workspaces"}:
        assert parameters[name].default == declared[name].default, name
    assert {*declared} <= {*parameters} or door != "plan"


def test_types_for_type_checkers_are_those_that_are_declared():
    assert {*vocabulary.EffortArguments.__annotations__} == {*OF_EFFORT}
    hints = get_type_hints(vocabulary.EffortArguments), get_type_hints(Effort)
    assert all(hints[0][name] == hints[1][name] for name in OF_EFFORT)
    of_step, typed = get_type_hints(StepOptions), get_type_hints(StepArguments)
    assert {*typed} == {one.name for one in fields(StepOptions)}
    assert all(typed[name] == of_step[name] for name in typed if name != "budget")
    taken = {*inspect.signature(plan).parameters} - {"model", "inputs", "regions", "how"}
    others = {*vocabulary.SearchArguments.__annotations__}
    assert {*get_type_hints(PlanArguments, localns={"PyTree": object})} - others == taken


@pytest.mark.parametrize("name", ["budget", "of", "gradients", "slow_memory", "time_limit", "threads", "seed"])
def test_the_command_has_what_is_declared(name):
    (parameter,) = (each for each in command.params if each.name == name)
    declared = {**options_of(Options), **options_of(MemoryOptions), **options_of(StepOptions)}[name]
    changed = {"slow_memory", "time_limit"}  # what they are of, or their default, is another one here
    assert parameter.help == declared.help or name in changed
    assert parameter.opts == [f"--{name.replace('_', '-')}"]
    if declared.choices:
        assert tuple(parameter.type.choices) == declared.choices


def test_a_step_declares_nothing_that_solve_has_but_its_budget_and_computations():
    known = {*options_of(ProblemOptions), *model_options(), *options_of(MemoryOptions)}
    assert {one.name for one in fields(StepOptions)} & known == {"budget", "max_computations"}


@pytest.mark.parametrize("name", ["of", "durations", "workspaces", "gradients", "shapes"])
@pytest.mark.parametrize("value", ["", "Measured", "each ", "stp"])
def test_a_word_that_is_not_among_the_choices_is_refused(name, value):
    choices = options_of(StepOptions)[name].choices
    assert f"{name} {value!r}: expected one of {', '.join(choices)}" in refusal(StepOptions, **{name: value})
    assert value in choices or refusal(ASKED["plan"], **{name: value}).startswith(f"{name} {value!r}: ")


@pytest.mark.parametrize("door", ["plan", "backend"])
@pytest.mark.parametrize("value", [0, -1, 1001, 2.5, "auto", "2", True])
def test_numbers_of_computations_are_refused_before_anything_is_traced(door, value):
    text = refusal(ASKED[door], max_computations=value)
    assert text == f"max_computations: {value!r} is not an integer from 1 to 1000"
