"""How to solve a problem."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moccasin_mzn.checks import check_seed, check_threads, check_time_limit
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations import Formulation, find_formulation

SEARCHES = ("on", "off", "only")
MORE, HINT, STOP = IF_NONE = ("more", "hint", "stop")
_GAP = re.compile(r"(\d{1,6}(?:\.\d{1,30})?|\.\d{1,30})\s*(%?)", re.ASCII)


@dataclass(frozen=True)
class SearchOptions:
    """How to look for an answer, whatever the problem; the meanings are those of the arguments of `solve`.

    Raises:
        InputError: an unknown search, or nonsense as a limit.
    """

    solver: str = "cp-sat"
    """Or several with commas between them, which race."""
    search: str | None = None
    """"on", which is None: incumbents from searches beside the model; "off": the model alone; "only": without it."""
    time_limit: float | None = None
    """Seconds; None: until proven."""
    until_gap: float = 0.0
    """Stop at this gap, (value - bound) / value."""
    threads: int | None = None
    """Of the solver; None: as many as there are cores."""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.search is None:
            object.__setattr__(self, "search", "on")
        if self.search not in SEARCHES:
            raise InputError(f"unknown search {shown(self.search)}, expected one of {', '.join(SEARCHES)}")
        self._check_solvers()
        check_time_limit(self.time_limit)
        if type(self.until_gap) not in (int, float) or not 0 <= self.until_gap < 1:
            raise InputError(f"gap {shown(self.until_gap)} is not a fraction of the duration, from 0 to below 1")
        check_threads(self.threads)
        check_seed(self.seed)

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


@dataclass(frozen=True)
class Options(SearchOptions):
    """How to look for a schedule of one memory.

    Raises:
        InputError: an unknown formulation, precedence or index as well, or what does not go with it.
    """

    formulation: str = "staged"
    precedence: str | None = None
    """None: the formulation's own."""
    index: str | None = None
    two_phase: bool | None = None
    if_none: str = STOP
    """Where no schedule is found: "more": the answer may compute nodes more often, if that helps; "hint": what would
    help is tried and told; "stop": it is told, but not tried."""

    def __post_init__(self) -> None:
        form = self.form
        if self.search is None and not form.limited:
            object.__setattr__(self, "search", "off")  # a rival, which is to be seen alone
        super().__post_init__()
        if self.search != "off" and not form.limited:
            raise InputError(f"search {self.search}: {form.name} runs alone, without local search and bounds")
        if self.two_phase and not form.two_phase:
            raise InputError(f"{form.name} has no first phase")
        if self.if_none not in IF_NONE:
            raise InputError(f"if none {shown(self.if_none)}: expected one of {', '.join(IF_NONE)}")

    @property
    def form(self) -> Formulation:
        """Formulation, precedence and index in one."""
        return find_formulation(self.formulation, self.precedence, self.index)

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


def default_if_none(max_computations: Any) -> str:
    """See `Options.if_none`: who says how often a node may be computed gets no answer that does it more often."""
    return MORE if max_computations is None else HINT


def parse_gap(text: str) -> float:
    """Read a gap, "1%" or "0.01", as a fraction.

    Raises:
        InputError: it is neither.
    """
    form = _GAP.fullmatch(text.strip())
    if form is None:
        raise InputError(f"gap {shown(text)}: expected a percentage (1%) or a fraction (0.01) of the duration")
    return float(form[1]) / (100 if form[2] else 1)


def parse_count(text: str) -> int | str | Path:
    """Read how often a node may be computed: a positive integer, "auto", or a file that says it for each node.

    Raises:
        InputError: it is none of them.
    """
    if text == "auto":
        return text
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) >= 1:
        return int(text)
    if Path(text).is_file():
        return Path(text)
    raise InputError(f"max computations {shown(text)}: expected a positive integer, auto or a file")
