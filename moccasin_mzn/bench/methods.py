"""Methods of an experiment: options of `solve`, where lists multiply; first those for several memories and addresses.

The first device has no budget of its own: it gets that of the graph, as local memory does with paging. A time per unit
of size may be a multiple of the graph's mean duration per unit of size, "0.1x", so that it means the same for all.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path

from moccasin_mzn.api.question import Question
from moccasin_mzn.api.request import AllocationRequest
from moccasin_mzn.api.tiling import AUTO, Tiles, cut_for_all
from moccasin_mzn.base.checks import check_time_limit
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.base.option import flag, options_of, words_of
from moccasin_mzn.bench.columns import Row
from moccasin_mzn.bench.toml_tables import Fields
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.memories import MemoryOptions, first_swept
from moccasin_mzn.machine.paging import PAGING
from moccasin_mzn.machine.platforms import exact
from moccasin_mzn.problem.files.schedules import parse_count
from moccasin_mzn.problem.instance import FREE
from moccasin_mzn.problem.options import ProblemOptions
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.options import STOP, Effort, Options, SearchOptions, model_options
from moccasin_mzn.strategies import find_strategy, strategies

_OF_GRAPHS = {
    name: one for name, one in options_of(ProblemOptions).items()
    if name not in ("budget", "count_fixed", "max_computations", "order", "strategy", "warm_start", "certificate")
}  # fmt: skip
EXTENSIONS = (*options_of(MemoryOptions), *_OF_GRAPHS)
"""Options of `solve` beyond schedules of one memory and of whole nodes, as in the file."""
FLAGS = tuple(name for name, one in {**options_of(MemoryOptions), **_OF_GRAPHS}.items() if one.kind is bool)
_RELATIVE = ("page_out_time", "page_in_time", "copy_time")
_PLACES = 12
"""Decimals of a relative time."""
Values = Mapping[str, Json]
"""Options of a method, by their names in the file."""


def for_graph(options: Values, graph: ComputationGraph) -> JsonObject:
    """Return the options with those times as numbers that were relative to the graph.

    Raises:
        InputError: a time is no number.
    """
    found = dict(options)
    for name in _RELATIVE:
        text = str(found.get(name, ""))
        if text.endswith("x"):
            cost = exact(name, text.removesuffix("x")) * Fraction(graph.total_duration, graph.total_size or 1)
            found[name] = f"{Decimal(cost.numerator) / cost.denominator:.{_PLACES}f}"
    return found


def problem_words(options: Values, budget: str) -> list[str]:
    """Return the arguments of `solve` for the budget and these options."""
    memories, whole, rest = memories_of(options, budget), [], []
    if memories is not None:
        own = {"--device": memories.device, "--memory": memories.memory}
        whole = [word for name, texts in own.items() for text in texts for word in (name, text)]
        rest = words_of(memories, without=("device", "memory"))
    others = {name: options[name] for name in _OF_GRAPHS if name in options}
    return [*(whole or ["--budget", budget]), *rest, *_words(others)]


def extension_text(options: Values) -> str | None:
    """Return the options beyond one memory in one line, the first device without a budget; None if there are none."""
    return shlex.join(extension_words(options)) or None


def extension_words(options: Values) -> list[str]:
    """Return the options beyond one memory as arguments of `solve`, with the values of the file."""
    return _words({name: options[name] for name in EXTENSIONS if name in options})


def _words(options: Values) -> list[str]:
    words = []
    for name, value in options.items():
        if value is not False:
            words += [flag(name), *([] if value is True else [str(value)])]
    return words


def memories_of(options: Values, budget: str = "100%") -> MemoryOptions | None:
    """Return the options for several memories as `solve` takes them; the first device, or memory, gets the budget.

    None: none of them is given, there is one memory.

    Raises:
        InputError: an option needs others which are missing.
    """
    given = {name: options[name] for name in options_of(MemoryOptions) if options.get(name, False) is not False}
    given = {name: value if value is True else str(value) for name, value in given.items()}
    devices, pools = (
        tuple(text.strip() for text in given.pop(name, "").split(",") if text.strip()) for name in ("device", "memory")
    )
    first = {"device": first_swept(devices, budget), "memory": first_swept(pools, budget, "memory")}
    return MemoryOptions.of({**given, **first})


# --- Methods --------------------------------------------------------------------------------------------------


_OF_MODELS = {name: one for name, one in model_options().items() if name not in (*options_of(Effort), "if_none")}
MODEL_OPTIONS = (*_OF_MODELS, "max_computations", "order", *EXTENSIONS)
"""Options of `solve` that a method may set, as in the file."""
ALLOCATE = "allocate"
"""The option that makes a method run this command, on buffers; of the others only "alignment" goes with it."""
ARENA = "arena"
"""The objective of methods for buffers."""
_OF_STRATEGIES = ("strategy", "order", "iterations", *_OF_GRAPHS)
ORDERS = "input", "topological", FREE
_EFFORT = ("time_limit", "threads")
OWN_KEYS = ("label", "graphs", "seeds", *_EFFORT)
"""Keys of a method that are no options of `solve`, or have a key for several values."""
REFUSED = {
    "certificate": "runs of an experiment write no files",
    "seed": "give a list, seeds",
    "budget": "budgets are those of the experiment or of a graph",
    "warm_start": "every run of an experiment starts from nothing",
    "count_fixed": "it is for the whole experiment: give it at the top of the file",
}
"""Options of `solve` that a method has not, and why."""
_CHEAP = {"threads": 1, "seeds": ()}


@dataclass(frozen=True)
class Method:
    """One way to solve an instance.

    Raises:
        InputError: an option is nonsense.
    """

    label: str
    options: Mapping[str, str | int | float | bool]
    """Options of `solve`, by the name in the file, without those that are fields here: those of `EXTENSIONS`, and
    "strategy" or others of `MODEL_OPTIONS`."""
    time_limit: float
    """The time limit in seconds."""
    threads: int
    """The number of threads; 1 for a strategy."""
    seeds: tuple[int, ...]
    """The random seeds; empty for a strategy, which draws no random numbers."""
    graphs: tuple[str, ...] = ("*",)
    """Patterns for the labels of the graphs that the method is for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", dict(self.options))
        check_time_limit(self.time_limit)
        if self.options.get("order", "input") not in ORDERS:
            raise InputError(f"order {shown(self.options['order'])}: {one_of(self.options['order'], ORDERS)}")
        if self.strategy is None and not self.seeds:
            raise InputError("seeds: a model needs one at least")
        if self.allocates:
            for name in self.options:
                if name not in (ALLOCATE, "alignment"):
                    raise InputError(f"{name} does not go with {ALLOCATE}")
        elif self.strategy is not None:
            self._check_strategy(self.strategy)
        self._check_values()
        for seed in () if self.allocates else self.seeds or (None,):
            self.question("100%", seed)

    def _check_values(self) -> None:
        most = self.options.get("max_computations")
        if most is not None and not (most == "auto" or type(most) is int):
            raise InputError(f"max_computations {shown(most)}: expected an integer or auto")
        if most is not None:
            parse_count(str(most))
        if self.options.get("tile") == AUTO:
            raise InputError("tile auto: parts would be chosen outside of the limits of a run: give rows, such as 4")

    def _check_strategy(self, name: str) -> None:
        find_strategy(name)
        odd = [option for option in self.options if option not in _OF_STRATEGIES]
        odd += ["seeds and threads"] if self.seeds or self.threads != 1 else []
        for what in odd:
            raise InputError(f"{what} {'are' if ' and ' in what else 'is'} for models, {name} is a strategy")

    @property
    def strategy(self) -> str | None:
        """The name of the strategy; None for a model."""
        name = self.options.get("strategy")
        return None if name is None else str(name)

    @property
    def allocates(self) -> bool:
        """True for a method on buffers, not on graphs."""
        return ALLOCATE in self.options

    @property
    def alignment(self) -> int:
        """The alignment of offsets, if there are any."""
        return int(self.options.get("alignment", 1))

    def fits(self, graph: str, buffers: bool = False) -> bool:
        """True if the method is for the graph, or the buffers, with this label."""
        return buffers == self.allocates and any(fnmatchcase(graph, pattern) for pattern in self.graphs)

    @property
    def memories(self) -> MemoryOptions | None:
        """The several memories that the method makes plans for, the first with all of the budget; None: one memory."""
        return memories_of(self.options)

    @property
    def is_of_graph_as_given(self) -> bool:
        """True if the method is for one memory, and for the graph as it is: whole, not in place."""
        changed = any(self.options.get(name) for name in ("in_place", "zero_copy_concat", "tile"))
        return self.memories is None and not changed

    def changed(self, other: Method) -> tuple[str, ...]:
        """Return the names of the options and limits in which the method differs from another one.

        An option that has its default value is as good as none. A strategy differs from a model in all of them.
        """
        if (self.strategy is None) != (other.strategy is None):
            return ("strategy", *MODEL_OPTIONS)
        names = sorted({*self.options, *other.options})
        options = [name for name in names if self.options.get(name) != other.options.get(name)]
        options = [name for name in options if self._with(name, other) != self._resolved()]
        return (*options, *(name for name in _EFFORT if getattr(self, name) != getattr(other, name)))

    def _with(self, name: str, other: Method) -> object:
        """Return what runs of the method would depend on with the value of an option of another one; None: nonsense."""
        options = {key: value for key, value in self.options.items() if key != name}
        options |= {key: value for key, value in other.options.items() if key == name}
        try:
            return replace(self, options=options)._resolved()
        except InputError:
            return None

    def _resolved(self) -> tuple[object, ...]:
        """Return all options that runs of the method depend on, with defaults where it has no value."""
        common = self.strategy, self.allocates, self.options.get("order", "input"), self.alignment
        of_graphs: tuple[object, ...] = tuple(
            self.options.get(name) or None for name in _OF_GRAPHS if name not in ("alignment", "tile")
        )
        of_graphs = *of_graphs, Tiles.of(self.options["tile"]) if "tile" in self.options else None
        extensions = self.memories, *of_graphs
        if self.strategy is not None or self.allocates:
            return *common, *extensions
        question = self.question("100%", self.seeds[0])
        if not isinstance(question.options, Options):
            return *common, *extensions, question.options, question.limit
        return *common, *extensions, replace(question.options, own={}), question.options.form, question.limit

    def compiled(self) -> tuple[CompiledSearch, ...]:
        """Return the compiled searches that runs of the method need."""
        along = compiled_for(self.options.get("order") == FREE)
        found = (ADDRESSES,) if self.allocates else (ADDRESSES, *along) if self.options.get("addresses") else ()
        if self.strategy is not None:
            return *found, *find_strategy(self.strategy).compiled
        options = None if self.allocates else self.question("100%", self.seeds[0]).options
        if not isinstance(options, SearchOptions) or options.search == "off":
            return found
        paging = self.memories is not None and self.memories.paging
        return *found, *along, *((PAGING,) if paging else ())

    def arguments(self, seed: int | None) -> list[str]:
        """Return the arguments after `solve GRAPH`, without those of `problem_words`: to repeat a run by hand."""
        words = []
        for name, value in self.options.items():
            if name in EXTENSIONS or name == ALLOCATE:
                continue
            if name in _OF_MODELS and _OF_MODELS[name].kind is bool:
                words.append(_OF_MODELS[name].flags[not value])
            else:
                word = str(value)
                words += [f"{flag(name)}={word}"] if word.startswith("-") else [flag(name), word]
        words += ["--time-limit", f"{self.time_limit:g}"]
        if self.strategy is None:
            words += ["--threads", str(self.threads), "--seed", str(seed)]
            words += ["--if-none", "stop"] if self.memories is None and not self.allocates else []  # C is not raised
        return words

    def question(self, budget: str, seed: int | None, count_fixed: bool = False) -> Question:
        """Return what a run asks about a graph.

        Raises:
            InputError: an option is nonsense, or options do not go together.
        """
        memories = memories_of(self.options, budget)
        own = {name: value for name, value in self.options.items() if name not in options_of(MemoryOptions)}
        if "until_gap" in own:
            own["until_gap"] = str(own["until_gap"])
        effort: JsonObject = {"time_limit": self.time_limit}
        if self.strategy is None:
            effort |= {"threads": self.threads, "seed": seed or 0}
            effort |= {"if_none": STOP} if memories is None else {}  # C is not raised
        whole = budget if memories is None or not memories.own_budgets else None
        return Question.of({**own, **effort, "budget": whole, "count_fixed": count_fixed}, memories=memories)

    def whole(self, graph: ComputationGraph) -> ComputationGraph:
        """Return the graph that budgets are for: in place, without concatenations.

        Raises:
            InputError: it cannot be had of the graph.
        """
        return self.question("100%", 0).whole(graph)

    def graph(self, graph: ComputationGraph) -> ComputationGraph:
        """Return the graph that schedules are for, which may be one of parts.

        Raises:
            InputError: it cannot be had of the graph.
        """
        question = self.question("100%", 0)
        whole = question.whole(graph)
        return whole if question.tiles is None else cut_for_all(whole, question.tiles)

    def problem(self, graph: ComputationGraph, budget: str, count_fixed: bool) -> Problem:
        """Return the problem of a run.

        Raises:
            InputError: the budget leaves nothing for outputs, or options make no sense for the graph.
        """
        return self.question(budget, 0, count_fixed).request(graph).problem

    def allocation(self, buffers: str, seed: int | None) -> AllocationRequest:
        """Make the request of a run on buffers, the text of a CSV file."""
        return AllocationRequest(buffers, self.alignment, self.time_limit, self.threads, seed or 0)

    def columns(self) -> Row:
        """Return the columns of a run's row that are about the method: its options as resolved, where they apply."""
        if self.allocates:
            return {"extension": extension_text(self.options), "objective": ARENA}
        common = {"extension": extension_text(self.options), "objective": self.options.get("objective", "duration")}
        if self.strategy is not None:
            return {"strategy": self.strategy, **common}
        question = self.question("100%", self.seeds[0])
        options = question.options
        assert isinstance(options, SearchOptions)
        most = 2 if question.limit is None else question.limit
        form = getattr(options, "form", None)
        return {
            "formulation": form.called if form else self.options.get("formulation", "staged"),
            "precedence": getattr(form, "precedence", None),
            "index": getattr(form, "index", None),
            "search": options.search,
            "solver": options.solver,
            "max_computations": str(most),
            **common,
        }


def read_methods(fields: Fields, top: Fields, folder: Path) -> Iterator[Method]:
    """Yield the methods of one table [[methods]]; keys that it does not have are taken from the top of the file.

    Args:
        folder: the folder of the file, to which paths of models are relative.

    Raises:
        InputError: a key is unknown, or its value is nonsense.
    """
    named = "strategy" in fields.values
    fields.only((*OWN_KEYS, "strategy", ALLOCATE, *MODEL_OPTIONS), REFUSED)
    effort: JsonObject = {
        "time_limit": fields.seconds("time_limit", top.seconds("time_limit", 60)),
        "threads": fields.count("threads", 1 if named else top.count("threads", 1)),
        "seeds": fields.integers("seeds", () if named else top.integers("seeds", (1,))),
        "graphs": fields.texts("graphs", ("*",)),
    }
    if named:
        for name in _CHEAP.keys() & fields.values.keys():
            raise InputError(f"{fields.key(name)}: a strategy has none")
    choices = _choices(fields)
    several = {name for name, values in choices.items() if len(values) > 1 or _is_pattern(fields.values[name])}
    for values in itertools.product(*choices.values()):
        options = dict(zip(choices, values, strict=True))
        label = _label(fields, options, several)
        if "model" in options:
            options["model"] = str((folder / options["model"]).resolve())
        try:
            yield Method(label, options, **effort)
        except InputError as error:
            raise InputError(f"{fields.where} ({label}): {error}") from None


def _choices(fields: Fields) -> dict[str, tuple[Json, ...]]:
    """Return all values of each option, with patterns of strategies resolved."""
    choices: dict[str, tuple[Json, ...]] = {}
    for name, value in fields.values.items():
        if name in OWN_KEYS:
            continue
        values = tuple(value) if type(value) is list else (value,)
        expected, fits = _KINDS[name]
        for one in values:
            if not fits(one):
                raise InputError(f"{fields.key(name)}: {shown(one)}, expected {expected}")
        if name == "strategy":
            with fields.at(name):
                values = tuple(strategy for one in values for strategy in _matching(one))
        if not values or len(set(values)) < len(values):
            raise InputError(f"{fields.key(name)}: {shown(value)} is empty or has a value twice")
        choices[name] = values
    return choices


def _is_word(value: object) -> bool:
    return isinstance(value, str) and _is_text(value) and not value.startswith("-")


def _is_text(value: object) -> bool:
    return type(value) is str and value.isprintable() and value.strip() != ""


def _is_number_or_word(value: object) -> bool:
    return type(value) in (int, float) or _is_word(value)


_SWITCHES = [name for name, one in _OF_MODELS.items() if one.kind is bool]
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(MODEL_OPTIONS, ("a string", _is_word)),
    **dict.fromkeys(set(EXTENSIONS) - {"objective", "device", "memory"}, ("a number or a string", _is_number_or_word)),
    **dict.fromkeys((*_SWITCHES, *FLAGS), ("true or false", lambda value: type(value) is bool)),
    "redundant": ("a string", _is_text),  # "-cover": all but this one
    "strategy": ("a string", _is_word),
    "max_computations": ("an integer or auto", lambda value: type(value) is int or _is_word(value)),
    "until_gap": ('"1%" or 0.01', _is_number_or_word),
    "alignment": ("a positive integer", lambda value: type(value) is int and value > 0),
    "tile": ("rows or tiles, such as 4 or 4x16", lambda value: type(value) is int or _is_word(value)),
    ALLOCATE: ("true", lambda value: value is True),
}
"""The values that each option may have, by name: a description, and a function that tests a value."""


def _is_pattern(value: object) -> bool:
    return isinstance(value, str) and any(sign in value for sign in "*?[")


def _matching(pattern: str) -> list[str]:
    if not _is_pattern(pattern):
        return [find_strategy(pattern).name]
    found = [strategy.name for strategy in strategies() if fnmatchcase(strategy.name, pattern)]
    if not found:
        raise InputError(f"{shown(pattern)} matches none of {', '.join(one.name for one in strategies())}")
    return found


def _label(fields: Fields, options: Values, several: set[str]) -> str:
    """Make the label of a method: that of the table with the values of options that have several, or all options."""
    if "label" in fields.values:
        return " ".join([fields.text("label"), *(_word(name, options[name]) for name in options if name in several)])
    if "strategy" in options:
        return str(options["strategy"])
    begin = ALLOCATE if ALLOCATE in options else options.get("formulation", "staged")
    others = (name for name in options if name not in (ALLOCATE, "formulation", "like"))
    return " ".join([begin, *(_word(name, options[name]) for name in others)])


def _word(name: str, value: Json) -> str:
    if name == "model":
        return Path(value).stem
    if name in _SWITCHES:
        return _OF_MODELS[name].flags[not value].removeprefix("--")
    if name == "max_computations":
        return f"C={value}"
    if name in FLAGS:
        return name if value else f"no {name}"
    if name in EXTENSIONS:
        return f"{name.replace('_', ' ')} {value}"
    if name in ("search", "order", "until_gap"):
        return f"{name.removeprefix('until_')} {value}"
    return str(value)
