"""How to solve a problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from moccasin_mzn.checks import check_seed, check_threads, check_time_limit
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations import FORMULATIONS, Formulation, find_formulation
from moccasin_mzn.option import Option, flag, option, options_of, values_of, words_of

Search: TypeAlias = Literal["on", "off", "only"]
"""Values of `SearchOptions.search`."""
IfNone: TypeAlias = Literal["more", "hint", "stop"]
"""Values of `Options.if_none`."""
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


def _plain(number: float) -> str:
    """All digits, without an exponent."""
    return format(Decimal(repr(number)), "f")


@dataclass(frozen=True)
class Effort:
    """How long to search, on how many threads, and from which seed.

    Raises:
        InputError: nonsense as one of them.
    """

    time_limit: float | None = option(None, "SECONDS", "Default: until proven.", kind=float)
    """Seconds for everything; None: until proven."""
    threads: int | None = option(None, "N", "Default: one per core.", kind=int)
    """Of the solver, or of all that race; None: as many as there are cores."""
    seed: int | None = option(None, "N", "Random seed of all searches.", kind=int)
    """None: 0, and the solver's own."""

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        check_threads(self.threads)
        check_seed(self.seed)


@dataclass(frozen=True)
class SearchOptions(Effort):
    """How to look for an answer, whatever the problem; the meanings are those of the arguments of `moccasin_mzn.solve`.

    Raises:
        InputError: an unknown search, or nonsense as a limit.
    """

    solver: str = option(
        "cp-sat", "NAME", "cp-sat, highs, scip, or any solver MiniZinc knows; A,B,C race.  [default: cp-sat]"
    )
    """Or several with commas between them, which race."""
    search: Search | None = option(
        None, "on|off|only", "Local search and bounds beside the model, the model alone, or none.  [default: on]"
    )
    """"on", which is None: incumbents from searches beside the model; "off": the model alone; "only": without it."""
    until_gap: float = option(
        0.0, "1%|0.01", "Stop at this gap between duration and bound.  [default: 0]", read=parse_gap, write=_plain
    )
    """Stop at this gap, (value - bound) / value."""

    def __post_init__(self) -> None:
        if self.search is None:
            object.__setattr__(self, "search", "on")
        if self.search not in SEARCHES:
            raise InputError(f"unknown search {shown(self.search)}, expected one of {', '.join(SEARCHES)}")
        self._check_solvers()
        if type(self.until_gap) not in (int, float) or not 0 <= self.until_gap < 1:
            raise InputError(f"gap {shown(self.until_gap)} is not a fraction of the duration, from 0 to below 1")
        super().__post_init__()

    def _check_solvers(self) -> None:
        if not isinstance(self.solver, str) or not all(self.solvers):
            raise InputError(f"solver {shown(self.solver)}: expected a name, or several with commas between them")
        for name in self.solvers:
            if self.solvers.count(name) > 1:
                raise InputError(f"solver {shown(self.solver)}: {name} is named twice")
        if len(self.solvers) > 1 and self.search == "only":
            raise InputError(f"solver {shown(self.solver)}: with search only there is no model for solvers to race on")

    @property
    def solvers(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(name.strip() for name in self.solver.split(","))

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """The options by name, as code or as people give them: gaps may be texts.

        Raises:
            InputError: nonsense in one of them.
        """
        return cls(**values_of(cls, given))

    def words(self) -> list[str]:
        """The command line of `solve` that says all this; reading it gives an equal object."""
        return words_of(self)


@dataclass(frozen=True)
class Options(SearchOptions):
    """How to look for a schedule of one memory.

    Raises:
        InputError: an unknown formulation, an option that it does not have, or what does not go with it.
    """

    formulation: str = option("staged", "NAME", "A model, see the command list.  [default: staged]")
    like: str = option("", "NAME", "With --model: the formulation whose data and solutions it has.")
    """Another word for `formulation`, for models of one's own; empty: not used."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The formulation's own options, such as "precedence"; those not given have its own defaults."""
    two_phase: bool | None = option(
        None, "", "Seek any schedule within the budget first. Default: with cp-sat.", kind=bool,
        flags=("--two-phase", "--one-phase"),
    )  # fmt: skip
    if_none: IfNone = option(
        STOP, "more|hint|stop",
        "No schedule found: try more computations per node and answer with that; try it, and a free order, and tell; "
        "or neither.  [default: more, hint if --max-computations is given]", always=True,
    )  # fmt: skip
    """Where no schedule is found: "more": the answer may compute nodes more often, if that helps; "hint": what would
    help is tried and told; "stop": it is told, but not tried."""

    def __post_init__(self) -> None:
        if self.like:
            self._check_like()
            object.__setattr__(self, "formulation", self.like)
        form = self.form
        if self.search is None and (not form.limited or form.model):
            object.__setattr__(self, "search", "off")  # a rival, or a model of one's own, which is to be seen alone
        super().__post_init__()
        if self.search != "off" and (not form.limited or form.model):
            raise InputError(f"search {self.search}: {form.called} runs alone, without local search and bounds")
        if self.two_phase and not form.two_phase:
            raise InputError(f"{form.called} has no first phase")
        if self.if_none not in IF_NONE:
            raise InputError(f"if none {shown(self.if_none)}: expected one of {', '.join(IF_NONE)}")

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
        """C_v, as `Instance.build` takes it; None: 2 for MOCCASIN, no limit for a rival.

        Raises:
            InputError: a limit for a formulation that has none.
        """
        if self.form.limited:
            return 2 if given is None else given
        if given is not None:
            raise InputError(f"{self.form.name} has no limit on computations, other than once per stage")
        return "unlimited"


def own_options() -> dict[str, Option]:
    """Those options of models that only some of our formulations have, by name; commands have these."""
    return {name: one for form in FORMULATIONS for name, one in form.own_options.items()}


def model_options() -> dict[str, Option]:
    """All options of models by name: those of `Options`, and `own_options`."""
    return {**options_of(Options), **own_options()}


def default_if_none(max_computations: object) -> IfNone:
    """See `Options.if_none`: who says how often a node may be computed gets no answer that does it more often."""
    return MORE if max_computations is None else HINT


def own_models(models: Sequence[str], like: str | None) -> list[tuple[dict[str, str], Formulation]]:
    """The options that run each of some models of one's own, and what stands for it.

    Raises:
        InputError: a model that cannot be read; an unknown formulation, or one without a model.
    """
    if like and not models:
        raise InputError("like: it goes with a model of one's own")
    given = [{"model": model, "like": like or "staged"} for model in models]
    return [(options, Options.of(options).form) for options in given]
