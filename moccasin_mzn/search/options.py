"""Options of searches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Final, Self, get_args

from moccasin_mzn.base.checks import check_seed, check_threads, check_time_limit
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import one_of
from moccasin_mzn.base.option import Option, flag, option, options_of, values_of, words_of
from moccasin_mzn.base.stop import check_iterations
from moccasin_mzn.base.vocabulary import IfNone, Search
from moccasin_mzn.formulations import FORMULATIONS, Formulation, find_formulation
from moccasin_mzn.solvers.minizinc.solvers import spelled

MORE: Final = "more"
HINT: Final = "hint"
STOP: Final = "stop"
SEARCHES: tuple[Search, ...] = get_args(Search)
IF_NONE: tuple[IfNone, ...] = get_args(IfNone)
_GAP = re.compile(r"(\d{1,6}(?:\.\d{1,330})?|\.\d{1,330})\s*(%?)", re.ASCII)


def parse_gap(text: str) -> float:
    """Read a gap, "1%" or "0.01", as a fraction.

    Raises:
        InputError: it is neither.
    """
    form = _GAP.fullmatch(text.strip())
    if form is None:
        raise InputError(f"gap {shown(text)}: expected a percentage (1%) or a fraction (0.01) of the duration")
    return float(form[1]) / (100 if form[2] else 1)


def gap_of(given: float | str | None) -> float | None:
    """Return a gap, a fraction or a text, as a fraction.

    Raises:
        InputError: a text that is no gap.
    """
    return parse_gap(given) if isinstance(given, str) else given


def _plain(number: float) -> str:
    """Return all digits of a number, without an exponent."""
    return format(Decimal(repr(number)), "f")


@dataclass(frozen=True)
class Effort:
    """Effort of a search: time limit, number of threads and random seed.

    Raises:
        InputError: one of them makes no sense.
    """

    time_limit: float | None = option(
        None, "SECONDS", "Seconds for the whole search.  [default: until optimality is proven]", kind=float
    )
    """Seconds for everything; None: until proven."""
    threads: int | None = option(None, "N", "Number of threads.  [default: one per core]", kind=int)
    """Number of threads of the solver, or of all that race; None: as many as there are cores."""
    seed: int | None = option(None, "N", "Random seed of all searches.", kind=int)
    """Random seed; None: 0, and the solver's own."""

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        check_threads(self.threads)
        check_seed(self.seed)


@dataclass(frozen=True)
class SearchOptions(Effort):
    """Options for any kind of problem; they mean what the arguments of `moccasin_mzn.solve` mean.

    Raises:
        InputError: an unknown search, or nonsense as a limit.
    """

    solver: str = option(
        "cp-sat",
        "NAME",
        "Solver of the model: cp-sat, highs, scip or any that MiniZinc knows; several, A,B,C, run in parallel.  "
        "[default: cp-sat]",
    )
    """Name of a solver, or of several with commas between them, which race."""
    search: Search | None = option(
        None,
        "on|off|only",
        "on: run local search and bounds alongside the model; off: the model alone; only: local search and bounds "
        "alone.  [default: on]",
    )
    """"on", which is None: incumbents from searches alongside the model; "off": the model alone; "only": without it."""
    until_gap: float = option(
        0.0,
        "1%|0.01",
        "Stop when the gap between the duration and its lower bound is at most this.  [default: 0]",
        read=parse_gap,
        write=_plain,
    )
    """Stop at this gap, (value - bound) / value."""
    iterations: int | None = option(
        None, "N", "End after N iterations of local search, not by the clock: the same result for the same seed.",
        kind=int,
    )  # fmt: skip
    """Iterations of a search that counts its work and asks no clock; None: searches in parallel, by the clock."""

    def __post_init__(self) -> None:
        if self.search is None:
            object.__setattr__(self, "search", "on")
        if self.search not in SEARCHES:
            raise InputError(f"unknown search {shown(self.search)}, {one_of(self.search, SEARCHES)}")
        self._check_solvers()
        if type(self.until_gap) not in (int, float) or not 0 <= self.until_gap < 1:
            raise InputError(f"gap {shown(self.until_gap)} is not a fraction of the duration, from 0 to below 1")
        check_iterations(self.iterations)
        super().__post_init__()

    def _check_solvers(self) -> None:
        if not isinstance(self.solver, str) or not all(self.solvers):
            raise InputError(f"solver {shown(self.solver)}: expected a name, or several with commas between them")
        if (names := tuple(map(spelled, self.solvers))) != self.solvers:
            object.__setattr__(self, "solver", ",".join(names))
        for name in self.solvers:
            if self.solvers.count(name) > 1:
                raise InputError(f"solver {shown(self.solver)}: {name} is named twice")
        if len(self.solvers) > 1 and self.search == "only":
            raise InputError(f"solver {shown(self.solver)}: with search only there is no model for solvers to race on")

    @property
    def solvers(self) -> tuple[str, ...]:
        """Names of the solvers."""
        return tuple(name.strip() for name in self.solver.split(","))

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Make options of values by name; gaps may be texts.

        Raises:
            InputError: nonsense in one of them.
        """
        return cls(**values_of(cls, given))

    def words(self) -> list[str]:
        """Return the command line of `solve` for these options; reading it gives an equal object."""
        return words_of(self)


@dataclass(frozen=True)
class Options(SearchOptions):
    """Options for a schedule of one memory.

    Raises:
        InputError: an unknown formulation, an option that it does not have, or what does not go with it.
    """

    formulation: str = option(
        "staged", "NAME", "The constraint model; the command `list` describes all.  [default: staged]"
    )
    like: str = option(
        "",
        "NAME",
        "With --model: the formulation whose data your model reads and whose solutions it prints.  [default: staged]",
    )
    """Synonym of `formulation`, for models of one's own; empty: not used."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The formulation's own options, such as "precedence"; those not given have its own defaults."""
    two_phase: bool | None = option(
        None, "", "First find any schedule within the budget, then shorten it.  [default: two phases with cp-sat]",
        kind=bool, flags=("--two-phase", "--one-phase"),
    )  # fmt: skip
    if_none: IfNone = option(
        STOP, "more|hint|stop",
        "What to do if no schedule is found. more: allow more computations of each node, and answer with such a "
        "schedule; hint: only report whether that, or another order, has a schedule; stop: try nothing else.  "
        "[default: more; hint if --max-computations is given]",
        always=True,
    )  # fmt: skip
    """Action where no schedule is found. "more": the answer may compute nodes more often, if that helps; "hint": what
    would help is tried and reported; "stop": it is reported, but not tried."""

    def __post_init__(self) -> None:
        if self.like:
            self._check_like()
            object.__setattr__(self, "formulation", self.like)
        form = self.form
        if self.search is None and (not form.limited or form.model):
            object.__setattr__(self, "search", "off")  # a baseline, or a model of one's own, which is to be seen alone
        super().__post_init__()
        if self.search != "off" and (not form.limited or form.model):
            called = " ".join(form.called.split())
            raise InputError(f"search {self.search}: {called} runs alone, without local search and bounds")
        if self.two_phase and not form.two_phase:
            raise InputError(f"{form.called} has no first phase")
        if self.if_none not in IF_NONE:
            raise InputError(f"if none {shown(self.if_none)}: {one_of(self.if_none, IF_NONE)}")

    def _check_like(self) -> None:
        if "model" not in self.own:
            raise InputError("like: it goes with a model of one's own")
        if self.formulation not in ("staged", self.like):
            raise InputError(f"formulation {shown(self.formulation)} and like {shown(self.like)}: give one of them")

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        names = {part.name for part in fields(cls)}
        known = {name: value for name, value in given.items() if name in names}
        return super().of({**known, "own": {name: value for name, value in given.items() if name not in names}})

    def words(self) -> list[str]:
        return [*super().words(), *(word for name, value in self.own.items() for word in (flag(name), value))]

    @property
    def form(self) -> Formulation:
        """The formulation, with its own options."""
        return find_formulation(self.formulation, **self.own)

    def default_computations(self, given: Any) -> Any:
        """Return C_v, as `Instance.build` takes it; None: 2 for MOCCASIN, no limit for a baseline.

        Raises:
            InputError: a limit for a formulation that has none.
        """
        if self.form.limited:
            return 2 if given is None else given
        if given is not None:
            raise InputError(f"{self.form.name} has no limit on computations, other than once per stage")
        return "unlimited"


def own_options() -> dict[str, Option]:
    """Return the options that only some of our formulations have, by name; commands have these."""
    return {name: one for form in FORMULATIONS for name, one in form.own_options.items()}


def model_options() -> dict[str, Option]:
    """Return all options of models by name: those of `Options`, and `own_options`."""
    return {**options_of(Options), **own_options()}


def plan_options(given: Mapping[str, object]) -> SearchOptions:
    """Return the options for plans among the arguments.

    Raises:
        InputError: nonsense in one of them.
    """
    known = {part.name for part in fields(SearchOptions)}
    return SearchOptions.of({name: value for name, value in given.items() if name in known})


def default_if_none(max_computations: object, iterations: object = None) -> IfNone:
    """Return the default of `Options.if_none`: a limit that is given on computations is kept, and counted searches try
    nothing else."""
    if iterations is not None:
        return STOP
    return MORE if max_computations is None else HINT


def own_models(models: Sequence[str], like: str | None) -> list[tuple[dict[str, str], Formulation]]:
    """Return the options that run each of some models of one's own, and its formulation.

    Raises:
        InputError: a model that cannot be read; an unknown formulation, or one without a model.
    """
    if like and not models:
        raise InputError("like: it goes with a model of one's own")
    given = [{"model": model, "like": like or "staged"} for model in models]
    return [(options, Options.of(options).form) for options in given]
