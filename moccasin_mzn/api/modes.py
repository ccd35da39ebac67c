"""Ways of asking, as parts: what may be asked with each is declared in a line, and every door refuses the rest by it.

A way of asking is a feature too. Where two parts stand for one way, as searches for arenas in one memory and in
several, either may handle a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from moccasin_mzn.problem.features import (
    JUDGES,
    MODES,
    NOT_ASKED,
    OF_ONE_MEMORY,
    OF_PROBLEMS,
    Ability,
    Feature,
    Features,
    Spelled,
    refuse,
    refuse_unsolved,
)
from moccasin_mzn.problem.plan_problem import PLAN_ARENAS
from moccasin_mzn.search.certifying import CERTIFICATES
from moccasin_mzn.search.counted import COUNTED
from moccasin_mzn.strategies.strategy import RULES

_BY_THE_CLOCK = {Feature.STRATEGY, Feature.ITERATIONS}
_WHOLE_LAYERS = "taking out concatenations is for whole layers"
_OF_ONE_BUDGET = "a certificate is of one budget"
_BEGINS_THERE = "a frontier begins at the least budget anyway"
WAYS = (
    Ability("arenas", OF_ONE_MEMORY | MODES, of=Feature.OFFSETS),
    PLAN_ARENAS,
    COUNTED,
    # in any order with the formulation general only, see `solve`
    Ability("races", OF_PROBLEMS | MODES - _BY_THE_CLOCK, of=Feature.RACE),
    # in any order those like the formulation general only, see `solve`
    Ability("models of one's own", OF_ONE_MEMORY | MODES - _BY_THE_CLOCK,
            MappingProxyType(dict.fromkeys(
                (Feature.PAGING, Feature.DEVICES, Feature.POOLS), "its data and solutions are of one memory")),
            Feature.OWN_MODEL),
    RULES,
    CERTIFICATES,
    Ability("taking out concatenations", OF_PROBLEMS | MODES - {Feature.TILE},
            MappingProxyType({Feature.TILE: _WHOLE_LAYERS}), Feature.ZERO_COPY),
    Ability("tiling",
            OF_PROBLEMS - {Feature.SIDE_BY_SIDE} | MODES - {Feature.ZERO_COPY},
            MappingProxyType({Feature.ZERO_COPY: _WHOLE_LAYERS,
                              Feature.SIDE_BY_SIDE: "what lies side by side does not once it is cut"}), Feature.TILE),
    Ability("the least budget", OF_PROBLEMS | MODES - {Feature.FRONTIER},
            MappingProxyType({Feature.FRONTIER: _BEGINS_THERE}), Feature.LEAST),
    Ability("frontiers", OF_PROBLEMS | MODES - {Feature.LEAST, Feature.CERTIFICATE},
            MappingProxyType({Feature.LEAST: _BEGINS_THERE, Feature.CERTIFICATE: _OF_ONE_BUDGET}), Feature.FRONTIER),
)  # fmt: skip
"""All ways of asking."""
_BROUGHT_BY = {one.argument: one for one in Feature if one.argument} | {
    "device": Feature.DEVICES, "platform": Feature.DEVICES, "memory": Feature.POOLS,
}  # fmt: skip
# of features with one argument, the later one: `zero_copy_concat` asks for taking out, outputs side by side come of it
_BY_VALUE = {"order", "solver", "max_computations", "goal"}
"""Arguments that bring a feature by some of their values only."""


def asked(arguments: Mapping[str, object], spelled: Callable[[str], str]) -> dict[Feature, str]:
    """Return the features that arguments bring, whatever the graph, each with how the user asked for it.

    Args:
        arguments: by name, as of `moccasin_mzn.solve` or of the command; those that are None, false or empty are not
            given.
        spelled: function from the name of an argument to how the user wrote it, such as "--in-place".
    """
    found = {
        _BROUGHT_BY[name]: spelled(name) for name, value in arguments.items()
        if name in _BROUGHT_BY and name not in _BY_VALUE and _is_given(value)
    }  # fmt: skip
    if str(arguments.get("order")) == "free":
        found[Feature.ANY_ORDER] = spelled("order")
    if "," in str(arguments.get("solver") or ""):
        found[Feature.RACE] = spelled("solver")
    if str(arguments.get("budget")) == "least":
        found[Feature.LEAST] = spelled("budget")
    return found


def _is_given(value: object) -> bool:
    return value is not None and value is not False and not (isinstance(value, tuple) and not value)


def refuse_ways(features: Iterable[Feature], spelled: Spelled = NOT_ASKED) -> None:
    """Refuse what is asked in a way that does not handle it.

    Raises:
        InputError: one sentence about a least set of features that do not go together.
    """
    wanted = Features(features)
    refuse_unsolved(wanted & OF_PROBLEMS, JUDGES, spelled)
    reasons = {one: why for way in WAYS if way.of in wanted for one, why in way.reasons.items()}
    for mode in (one for one in Feature if one in wanted & MODES):
        ways = [way for way in WAYS if way.of is mode]
        refuse(wanted, ways, "nothing handles", spelled, Features({mode}), reasons)
