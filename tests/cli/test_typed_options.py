"""Options as classes, as a command has them, and as a command line for another process: each says the same."""

from __future__ import annotations

import contextlib

import pytest
from cases import MODELS
from hypothesis import assume, given
from hypothesis import strategies as st

from moccasin_mzn.api.question import Question
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.option import flag, options_of, words_of
from moccasin_mzn.cli.frontier import frontier
from moccasin_mzn.cli.solve import solve
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.search.options import (
    IF_NONE,
    SEARCHES,
    Options,
    SearchOptions,
    model_options,
    own_options,
    plan_options,
)

EFFORT = {
    "time_limit": st.floats(1e-300, 1e300),
    "threads": st.integers(1, 2**40),
    "seed": st.integers(0, 2**31 - 1),
    "solver": st.sampled_from(["highs", "cp-sat,gecode", "org.gecode@6.3", "cp-sat"]),
    "search": st.sampled_from(SEARCHES),
    "until_gap": st.floats(0, 1, exclude_max=True),
}
OF_MODELS = {
    "formulation": st.sampled_from([form.name for form in FORMULATIONS]),
    "two_phase": st.booleans(),
    "if_none": st.sampled_from(IF_NONE),
    **{name: st.sampled_from(option.choices) for name, option in own_options().items() if option.choices},
    "model": st.just(str(MODELS / "staged.mzn")),
    "like": st.sampled_from(["staged", "general"]),
}


def given_by(words):
    """What the command `solve` makes of a command line."""
    parameters = solve.make_context("solve", ["graph.json", "--budget", "1", *words]).params
    return {name: value for name, value in parameters.items() if name in model_options() and value is not None}


@given(st.fixed_dictionaries({}, optional={**EFFORT, **OF_MODELS}))
def test_options_survive_the_command_line(chosen):
    try:
        options = Options.of(chosen)
    except InputError:
        assume(False)
    assert Question.of({"budget": 1, **given_by(options.words())}).options == options


@given(st.fixed_dictionaries({}, optional=EFFORT))
def test_options_of_plans_survive_the_command_line(chosen):
    try:
        options = SearchOptions(**chosen)
    except InputError:
        assume(False)
    assert plan_options(given_by(options.words())) == options


@pytest.mark.parametrize(
    ("command", "without"), [(solve, ()), (frontier, ("two_phase", "if_none", "like", "iterations"))]
)
def test_every_option_of_models_is_one_of_the_command(command, without):
    names = {parameter.name: parameter for parameter in command.params}
    for name, option in model_options().items():
        if name not in without:
            assert names[name].help and (option.flags[0] or flag(name)) in names[name].opts


TEXTS = st.sampled_from(["1", "0.25", "inf", "+5%", "16GiB"])


PLACES = st.lists(st.sampled_from(["gpu=6", "cpu=inf:4"]), max_size=2, unique=True)


@given(st.booleans(), PLACES, PLACES, st.data())
def test_options_of_several_memories_survive_the_command_line(paging, devices, memories, data):
    others = ("paging", "device", "memory", "platform")
    names = [name for name, option in options_of(MemoryOptions).items() if name not in others]
    chosen = data.draw(st.dictionaries(st.sampled_from(names), TEXTS))
    given = {"paging": paging, "device": tuple(devices), "memory": () if paging or devices else tuple(memories)}
    for name, value in chosen.items():
        with contextlib.suppress(InputError):  # what does not go with the others is left out
            MemoryOptions(**given, **{name: value})
            given[name] = value
    options = MemoryOptions.of(given)
    words = [] if options is None else words_of(options)
    parameters = solve.make_context("solve", ["graph.json", *words]).params
    assert MemoryOptions.taken_from(parameters) == options
