"""The kinds of random questions by name, and questions that combine what each of them asks by itself.

`together` draws a machine, an order, limits by node, offsets, another goal, a counted search or one by the clock, and
one budget, the least budget or a frontier, each independently: most have three features or more. Claims are compared
with exact values where the oracle knows them; with offsets in several memories, with the exact values without offsets,
which are lower bounds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import moccasin_mzn as mz
from moccasin_mzn.problem.features import NONE, Feature, Features, graph_features
from soaking.exact import account, arena_best, best, layout_flaw
from soaking.exact_plans import best_plan
from soaking.exact_questions import (
    COUNTED,
    Answered,
    Asked,
    Several,
    addresses,
    allocate,
    certificates,
    devices,
    devices_of,
    draw_graph,
    exact_graph,
    frontier,
    is_refusal,
    judge_plan,
    least,
    order,
    paging,
    paging_of,
    pools,
    pools_of,
    solve,
    tiles,
)

Exact = Callable[[int], int | None]
"""The least total within a budget of the only memory, or the first one; None: there is none."""


@dataclass(frozen=True)
class Truth:
    """Exact values of a question, by budget."""

    claims: Exact
    """Least totals of the answers that proofs are about: no bound is above them."""
    answers: Exact
    """Least totals of all answers in scope: none is below them."""
    is_exact: bool
    """False: both are lower bounds, so that only answers are compared with them."""


class _Together(Asked):
    """A question with its ways of asking."""

    def __init__(self, rng: random.Random) -> None:
        machine = rng.choice([None, None, paging_of, devices_of, pools_of])
        self.offsets = rng.random() < 0.3
        super().__init__(rng, 3 if self.offsets else 5, 4 if self.offsets else None, several=machine is not None)
        self.ways: set[Feature] = {Feature.OFFSETS} if self.offsets else set()
        self.given: dict[str, object] = {"addresses": True, "alignment": rng.choice([1, 1, 2])} if self.offsets else {}
        if rng.random() < 0.3:
            self.most = [rng.choice([1, 2, 3]) for _ in self.graph.nodes]
            self.ways.add(Feature.COUNTS)
        self.several = None if machine is None else machine(self)
        self.budget_of_one = min(12, self.budget()) if self.offsets else self.budget()
        self.goal = "duration"
        if self.several is not None:
            self.ways.add(self.several.way)
            if self.several.way is not Feature.POOLS and rng.random() < 0.3:
                self.goal = self.given["goal"] = "traffic"
                self.ways.add(Feature.GOALS)
        if rng.random() < 0.5:
            self.given["stop"] = mz.stop.Iterations(COUNTED)
            self.ways.add(Feature.ITERATIONS)

    def place(self, budget: int | str | None) -> dict[str, object]:
        """The machine as an argument, with a budget of its first memory, or as it was drawn."""
        if self.several is None:
            return {"budget": budget or self.budget_of_one}
        given = dict(self.several.given)
        if budget is None:
            return given
        if "budget" in given:
            return given | {"budget": budget}
        name = "memories" if "memories" in given else "devices"
        table = dict(given[name])  # type: ignore[call-overload]
        return given | {name: table | {next(iter(table)): budget}}

    def truth(self) -> Truth:
        """The exact values."""
        free, several = self.free, self.several
        if several is None:
            if self.offsets:
                align, modes = self.given["alignment"], (self.mode, "free" if free else "first")
                claims, answers = (lambda arena, m=mode: self._arena(arena, align, m) for mode in modes)
            else:
                claims, answers = (lambda budget, m=mode: self._one(budget, m) for mode in (self.mode, self._widest))
            return Truth(claims, answers, True)
        modes = ("free", "free") if free else (several.staged, several.widest)
        claims, answers = (lambda budget, m=mode: self._plan(several, budget, m) for mode in modes)
        return Truth(claims, answers, not self.offsets)

    @property
    def _widest(self) -> str:
        return "free" if self.free else "first"

    def _one(self, budget: int, mode: str) -> int | None:
        found = best(self.tiny, budget, mode, self.most)
        return None if found is None else found[0]

    def _arena(self, arena: int, align: object, mode: str) -> int | None:
        found = arena_best(self.tiny, arena, align, self.most, mode, 200_000)
        return None if found is None else found[0]

    def _plan(self, several: Several, budget: int, mode: str) -> int | None:
        machine = replace(several.machine, budgets=[budget, *several.machine.budgets[1:]])
        found = best_plan(self.tiny, machine, mode, self.counts_in(machine), self.goal)
        return None if found is None else found[0]

    def judged(self, found: mz.Result) -> None:
        """Judge an answer and its offsets."""
        if not found.valid:
            return
        if self.several is not None:
            machine = self.several.machine
            judge_plan(self, replace(machine, budgets=[*found.budgets.values()][: len(machine.budgets)]), found)
        elif found.positions is not None:
            self.judge(found.positions, found.budget, found.duration)
        if found.offsets is not None and not self.graph.runs_in_place and self.graph.workspaces is None:
            for flaw in _overlaps(found, int(str(self.given["alignment"]))):
                self.expect(False, flaw)


def _overlaps(found: mz.Result, alignment: int) -> list[str]:
    flaws = []
    for name in found.budgets:
        rows = [each for each in found.intervals or () if each.memory == name and each.offset is not None]
        boxes = [(each.size, alignment, [(each.start, each.end + 1, 0, each.size)]) for each in rows]
        flaws.append(layout_flaw(boxes, [each.offset for each in rows]))
    return [flaw for flaw in flaws if flaw]


def together(rng: random.Random) -> Answered:
    """A question of several features."""
    asked = _Together(rng)
    how = {**asked.how, **asked.given, "search": "only", "threads": 1}
    what = rng.choice([_within, _within, _within, _least, _frontier])
    what(asked, how)
    return asked.answered(*asked.ways)


def _clock(asked: _Together, seconds: float) -> dict[str, object]:
    return {} if Feature.ITERATIONS in asked.ways else {"time_limit": seconds}


def _within(asked: _Together, how: dict[str, object]) -> None:
    stop = {"if_none": "stop"} if asked.several is None else {}
    found = mz.solve(asked.graph, **asked.place(None), **how, **stop, **_clock(asked, 1))
    _compare(asked, found, asked.budget_of_one if asked.several is None else asked.several.machine.budgets[0])


def _compare(asked: _Together, found: mz.Result, budget: int) -> None:
    asked.judged(found)
    truth = asked.truth()
    wide = truth.answers(budget)
    exact = wide if "first computations" in found.reason else truth.claims(budget)
    if found.valid and found.value is not None:
        asked.expect(wide is not None and found.value >= wide, f"{found.value} is less than the least, {wide}")
    if not truth.is_exact:
        return
    if found.status == "infeasible":
        asked.expect(exact is None, f"infeasible, but {exact}: {found.reason}")
        return
    asked.expect(exact is None or found.bound <= exact, f"bound {found.bound}, but {exact}")
    if found.valid and found.status == "optimal" and exact is not None:
        asked.expect(found.value is not None and found.value <= exact, f"optimal with {found.value}, but {exact}")


def _least(asked: _Together, how: dict[str, object]) -> None:
    asked.ways.add(Feature.LEAST)
    found = mz.solve(asked.graph, **asked.place("least"), **how, **_clock(asked, 1.5))
    asked.judged(found)
    claim = re.match(r"budget: ([0-9,]+), the (?:least that any|.*; ([0-9,]+) are proven)", " ".join(found.notes))
    truth, budget = asked.truth(), next(iter(found.budgets.values()))
    if found.valid and budget is not None:
        asked.expect(truth.answers(budget) is not None, f"found within {budget}, where there is nothing")
    if claim is not None and truth.is_exact:
        amount = int((claim[2] or claim[1]).replace(",", ""))
        asked.expect(amount <= 1 or truth.claims(amount - 1) is None, f"{claim[0]}, but less is enough")


def _frontier(asked: _Together, how: dict[str, object]) -> None:
    asked.ways.add(Feature.FRONTIER)
    place = asked.place(None)
    if asked.several is None or "budget" in place:
        place.pop("budget")
    else:
        place = asked.place("inf")
    found = mz.frontier(asked.graph, points=3, **place, **how, **_clock(asked, 2))
    truth = asked.truth()
    for point in found.points:
        exact, value = truth.claims(point.budget), point.duration
        if truth.is_exact:
            asked.expect(exact is None or point.bound <= exact, f"{point.budget}: bound {point.bound}, but {exact}")
        if value is not None:
            wide = truth.answers(point.budget)
            asked.expect(wide is not None and value >= wide, f"{point.budget}: {value} is less than {wide}")


LARGE, LARGEST, SECONDS_OF_LARGE = 30, 60, 1.0
"""Operations of graphs that no oracle knows, and seconds for each answer about them."""


def large(rng: random.Random) -> Answered:
    """One budget of a larger graph, asked in several ways: none finds what another one excludes. A proof about any
    order holds for answers in stages of the input order, and searches there, seeds and models are asked for these."""
    graph = draw_graph(rng, LARGEST, crowded=rng.random() < 0.5, least=LARGE, far=0.02)
    tiny = exact_graph(graph)
    low, high = max(1, *graph.working_sets), max(1, account(tiny, tiny.order).peak)
    budget = rng.randint(low, max(low, high))
    limit = {"time_limit": SECONDS_OF_LARGE, "threads": 1, "if_none": "stop", "max_computations": rng.choice([1, 2, 3])}
    ways = [
        {"order": "free", "search": "only", **limit}, {"order": "free", "search": "only", "seed": 7, **limit},
        {"search": "only", **limit}, {"search": "off", **limit}, {"search": "off", "formulation": "general", **limit},
    ]  # fmt: skip
    found = [mz.solve(graph, budget, **way) for way in ways]
    flaws, valid = [], [one for one in found if one.valid]
    for one in valid:
        judged = account(tiny, one.positions)
        if judged.flaw or judged.peak > budget or judged.duration != one.duration:
            flaws.append(f"{one.found_by}: {judged.flaw or judged.peak}")
    for way, one in zip(ways, found, strict=True):
        if "order" not in way:
            continue
        if one.status == "infeasible" and valid:
            flaws.append(f"infeasible, but {valid[0].found_by} found {valid[0].duration}: {one.reason}")
        flaws += [f"bound {one.bound} of {one.proved_by}, but {other.found_by} found {other.duration}"
                  for other in valid if one.status != "infeasible" and other.duration < one.bound]  # fmt: skip
    return Answered(graph_features(graph) | {Feature.ANY_ORDER}, flaws)


KINDS: dict[str, tuple[float, Callable[[random.Random], Answered]]] = {
    "solve": (10, solve), "least": (2, least), "frontier": (1, frontier), "order": (3, order),
    "addresses": (1, addresses), "certificates": (2, certificates), "pools": (1, pools), "paging": (1, paging),
    "devices": (1, devices), "allocate": (2, allocate), "tiles": (1, tiles), "together": (5, together),
    "large": (0.02, large),
}  # fmt: skip
"""By name how often a question is of this kind, and what asks it."""
GAVE_UP, REFUSED = "gave up", "refused"


@dataclass(frozen=True)
class Outcome:
    """What came of a question."""

    kind: str
    how: str = ""
    """Empty: it was answered; or the oracle gave up, having too many states, or it was refused."""
    features: Features = NONE
    flaws: tuple[str, ...] = ()


def ask(number: int, only: str | None = None) -> Outcome:
    """Ask one question; an exception that is no refusal is a flaw."""
    rng = random.Random(f"exact {number}")
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    kind = only or kind
    try:
        answered = KINDS[kind][1](rng)
        return Outcome(kind, "", answered.features, tuple(answered.flaws))
    except MemoryError:  # of the oracle: too many states
        return Outcome(kind, GAVE_UP)
    except Exception as error:
        if is_refusal(error):
            return Outcome(kind, REFUSED)
        return Outcome(kind, flaws=(f"{type(error).__name__}: {error}",))
