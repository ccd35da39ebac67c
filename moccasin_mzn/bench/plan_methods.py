"""Options of methods for several memories and for addresses: as in an experiment's file, and as `solve` takes them.

The first device has no budget of its own: it gets that of the graph, as local memory does with paging. A time per unit
of size may be a multiple of the graph's mean duration per unit of size, "0.1x", so that it means the same for all.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from moccasin_mzn.api.request import plan_options
from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.devices.build import exact
from moccasin_mzn.extensions.memories import MemoryOptions, first_device_swept
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.option import flag, options_of, words_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import SearchOptions

EXTENSIONS = (*options_of(MemoryOptions), "addresses", "alignment")
"""Options of `solve` beyond schedules of one memory, as in the file."""
FLAGS = ("paging", "addresses")
_RELATIVE = ("page_out_time", "page_in_time", "copy_time")
_PLACES = 12
"""Decimals of a relative time."""
Values = Mapping[str, Any]
"""Options of a method, by their names in the file."""


def several_memories(options: Values) -> bool:
    """Does a method ask for a plan, not a schedule?

    Raises:
        InputError: an option that needs others which are not there.
    """
    if "alignment" in options and not options.get("addresses"):
        raise InputError("alignment goes with addresses")
    return _memories(options, "100%").several


def how_to_plan(options: Values, **effort: Any) -> SearchOptions:
    """How a method for several memories searches.

    Raises:
        InputError: nonsense, or an option that is for one memory only.
    """
    others = {name: str(value) for name, value in options.items() if name not in EXTENSIONS}
    _memories(options, "100%").refuse_others(name for name in others if name != "order")
    return plan_options({**others, **effort})


def plan_problem(
    options: Values, graph: ComputationGraph, budget: str, order: str, count_fixed: bool
) -> tuple[PlanProblem, PlanFormulation]:
    """What a method for several memories asks of a graph, and the formulation for it.

    Raises:
        InputError: nonsense in an option, or options that do not go together.
    """
    memories = _memories(options, budget)
    others = {name: str(value) for name, value in options.items() if name not in EXTENSIONS}
    whole = None if memories.device else budget
    return memories.problem(graph, others, budget=whole, order=order, count_fixed=count_fixed)


def for_graph(options: Values, graph: ComputationGraph) -> dict[str, Any]:
    """The options with times that are relative to the graph as numbers.

    Raises:
        InputError: no number.
    """
    found = dict(options)
    for name in _RELATIVE:
        text = str(found.get(name, ""))
        if text.endswith("x"):
            cost = exact(name, text.removesuffix("x")) * Fraction(graph.total_duration, graph.total_size or 1)
            found[name] = f"{Decimal(cost.numerator) / cost.denominator:.{_PLACES}f}"
    return found


def question(options: Values, budget: str) -> list[str]:
    """The words of `solve` for these options and the budget."""
    memories = _memories(options, budget)
    whole = [word for text in memories.device for word in ("--device", text)] or ["--budget", budget]
    others = {name: options[name] for name in EXTENSIONS[-2:] if name in options}
    return [*whole, *words_of(memories, without=("device",)), *_words(others)]


def extension_text(options: Values) -> str | None:
    """These options in one line, the first device without a budget; None without them."""
    return shlex.join(extension_words(options)) or None


def extension_words(options: Values) -> list[str]:
    """These options as they stand."""
    return _words({name: options[name] for name in EXTENSIONS if name in options})


def _words(options: Values) -> list[str]:
    words = []
    for name, value in options.items():
        if value is not False:
            words += [flag(name), *([] if value is True else [str(value)])]
    return words


def _memories(options: Values, budget: str) -> MemoryOptions:
    """The options for several memories as `solve` takes them; the first device has the budget."""
    given = {name: options[name] for name in options_of(MemoryOptions) if options.get(name, False) is not False}
    given = {name: value if value is True else str(value) for name, value in given.items()}
    devices = tuple(text.strip() for text in given.pop("device", "").split(",") if text.strip())
    return MemoryOptions(**given, device=first_device_swept(devices, budget))
