"""Random questions about a graph, each of them a command line."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph
from soaking.graphs import random_order
from soaking.judging import FREE, STAGED, Scope, account

API, HERE, PROCESS = "api", "here", "process"
"""How a question is asked: by a Python function; as a command line in this process, or in one of its own."""
SMALL = 9
"""Most nodes of a graph for the oracle."""
COMMANDS = {"order": "order", "frontier": "frontier"}
"""Names of the kinds of questions that are not `solve`."""


@dataclass(frozen=True)
class Problem:
    """What the questions about a graph have in common."""

    graph: ComputationGraph
    order: str | tuple[int, ...]
    """"input", "topological", or positions."""
    budget: str
    """As on the command line."""

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The input order."""
        if self.order == "input" and self.graph.order is not None:
            return self.graph.order
        return self.graph.topological_order() if isinstance(self.order, str) else self.order

    @cached_property
    def peak(self) -> int:
        """The peak of the input order."""
        return account(self.graph, self.positions).peak

    def amount(self, free: bool, count_fixed: bool) -> int:
        """The budget in the graph's unit, that of the orders that the command line with `--order free` refers to."""
        fixed = sum(self.graph.fixed_memory.values()) if count_fixed else 0
        peak = Problem(self.graph, "input", "").peak if free else self.peak
        if "." not in self.budget and "%" not in self.budget:
            return int(self.budget) - fixed
        fraction = Fraction(self.budget.rstrip("%")) / (100 if "%" in self.budget else 1)
        return ceil(fraction * (peak + fixed)) - fixed


@dataclass(frozen=True)
class Question:
    """One command line; options by name without the dashes, True for a flag."""

    kind: str
    """"solve", "race", "addresses", "strategy", "plan", "order" or "frontier"."""
    how: str
    problem: Problem
    options: dict[str, str | bool] = field(default_factory=dict)
    free: bool = False
    most: int | str | tuple[int, ...] | None = None
    """C as asked for; None: the default."""
    start: tuple[int, ...] | None = None
    """The warm start."""

    @property
    def formulation(self) -> str:
        """By name; empty for a strategy."""
        return "" if "strategy" in self.options else str(self.options.get("formulation", "staged"))

    @property
    def limited(self) -> bool:
        """Is there a limit on computations?"""
        return self.formulation in ("staged", "general")

    @property
    def budget(self) -> int:
        """In the graph's unit."""
        return self.problem.amount(self.free, "count-fixed" in self.options)

    @property
    def order(self) -> tuple[int, ...]:
        """The input order that fractions, stages and increases refer to."""
        return Problem(self.problem.graph, "input", "").positions if self.free else self.problem.positions

    @property
    def allowed(self) -> tuple[int, ...]:
        """Most computations of each node."""
        n = len(self.problem.graph.nodes)
        if not self.limited:
            return (n * n + 1,) * n  # more than any schedule is good for
        if isinstance(self.most, tuple):
            return self.most
        return ({None: 2, "auto": 8}.get(self.most, self.most),) * n

    @property
    def scope(self) -> Scope:
        """What proofs of the question range over at least."""
        any_order = self.free or self.formulation in ("general", "")
        return Scope(FREE if any_order else STAGED, self.allowed)

    def arguments(self, folder: Path) -> list[str]:
        """The command line after the program's name; writes its files into the folder."""
        graph = self.problem.graph
        words = [COMMANDS.get(self.kind, "solve"), str(_written(folder / "graph.json", graph))]
        if self.free:
            words += ["--order", "free"]
        elif isinstance(self.problem.order, tuple):
            words += ["--order", str(_ids_written(folder / "order.json", graph, self.problem.order))]
        elif self.problem.order != "input":
            words += ["--order", self.problem.order]
        if isinstance(self.most, tuple):
            path = folder / "most.json"
            path.write_text(json.dumps(dict(zip(map(str, graph.nodes), self.most, strict=True))), encoding="utf-8")
            words += ["--max-computations", str(path)]
        elif self.most is not None:
            words += ["--max-computations", str(self.most)]
        if self.start is not None:
            words += ["--warm-start", str(_ids_written(folder / "start.json", graph, self.start))]
        for name, value in self.options.items():
            for each in value.split(" ") if name in ("device", "budget") else [value]:
                words += [f"--{name}"] if each is True else [f"--{name}", each]
        return [*words, "--json"]


def _written(path: Path, graph: ComputationGraph) -> Path:
    from moccasin_mzn.graphs.formats.node_link import write_graph

    write_graph(graph, path)
    return path


def _ids_written(path: Path, graph: ComputationGraph, positions: Sequence[int]) -> Path:
    path.write_text(json.dumps([graph.nodes[v] for v in positions]), encoding="utf-8")
    return path


def draw_problem(rng: random.Random, graph: ComputationGraph) -> Problem:
    """An order and a budget; mostly one between the largest working set and the peak."""
    order: Any = rng.choice(["input", "input", "input", "topological", random_order(rng, graph)])
    peak = Problem(graph, order, "").peak
    least = graph.largest_working_set().memory
    style = rng.random()
    if style < 0.15 and peak:
        shares = [least / peak, 1.0]
        return Problem(graph, order, f"{max(0.01, rng.uniform(*shares)):.3f}")
    if style < 0.25 and peak:
        return Problem(graph, order, f"{max(1.0, rng.uniform(100 * least / peak, 100)):.2f}%")
    if style < 0.3:
        least, peak = least // 2, least - 1
    elif style < 0.55:
        peak = (least + peak) // 2  # tight
    return Problem(graph, order, str(max(1, rng.randint(min(least, peak), peak))))


def draw_question(rng: random.Random, problem: Problem, kind: str, solvers: Sequence[str]) -> Question:
    """A question of a kind.

    Args:
        solvers: that are here, by name.
    """
    draw = {
        "solve": _solve, "start": _start, "race": _race, "addresses": _addresses, "strategy": _strategy, "plan": _plan,
        "order": _order, "frontier": _frontier,
    }[kind]  # fmt: skip
    return draw(rng, problem, solvers)


def _limits(rng: random.Random, problem: Problem) -> dict[str, str | bool]:
    small = len(problem.graph.nodes) <= SMALL
    options: dict[str, str | bool] = {"time-limit": str(6 if small else 4), "threads": rng.choice(["1", "1", "2"])}
    if rng.random() < 0.5:
        options["seed"] = str(rng.randrange(2**31))
    if problem.graph.fixed_memory and rng.random() < 0.5:
        options["count-fixed"] = True
    return options


def _most(rng: random.Random, n: int, top: int) -> int | str | tuple[int, ...] | None:
    each = tuple(rng.randint(1, top) for _ in range(n))
    return rng.choice([None, None, 1, min(3, top), top, each, "auto" if top > 3 else None])


def _how(rng: random.Random) -> str:
    return rng.choices([API, HERE, PROCESS], [6, 3, 1])[0]


def _solve(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    """A model, any form of it on any solver, or the searches."""
    n, graph = len(problem.graph.nodes), problem.graph
    options = _limits(rng, problem)
    small = max(sum(graph.sizes), sum(graph.durations)) < 10**6
    family = rng.choices(["staged", "milp", "general", "search"], [4, 3, 1.5, 3])[0]
    if n > SMALL and family == "general":
        family = "search"
    options["budget"] = problem.budget
    if family == "milp":
        options["formulation"] = rng.choice(["checkmate-milp", "checkmate-milp-strengthened"])
        options["solver"] = rng.choice(["cp-sat", "highs", "highs", "scip", "scip"])
        return Question("solve", _how(rng), problem, options)
    free = rng.random() < (0.45 if family == "search" else 0.1)
    if family == "search":
        options["search"] = rng.choice(["only", "only", "on"])
        return Question("solve", _how(rng), problem, options, free, _most(rng, n, 8))
    if family == "general":
        options["formulation"] = "general"
    options["search"] = "on" if free and family == "staged" else rng.choice(["off", "off", "on"])
    options["precedence"] = rng.choice(["served-by", "served-by", "reservoir"])
    if family == "staged" and not free:
        options["index"] = rng.choice(["affine", "triangular"])
    choice = ["cp-sat", "cp-sat", "cp-sat"]
    if options["precedence"] == "served-by" and n <= (5 if family == "general" else SMALL):
        choice += ["highs", "scip"]
    if "gecode" in solvers and small and n <= (4 if family == "general" else 6):
        choice += ["gecode"]
    options["solver"] = rng.choice(choice)
    if rng.random() < 0.3:
        options[rng.choice(["two-phase", "one-phase"])] = True
    if rng.random() < 0.1:
        options["until-gap"] = rng.choice(["0.05", "0.3"])
    return Question("solve", _how(rng), problem, options, free, _most(rng, n, 3 if family == "general" else 8))


def _start(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    """The searches alone and in haste, to be given a warm start."""
    options = {"budget": problem.budget, **_limits(rng, problem), "search": "only", "time-limit": "2"}
    most = _most(rng, len(problem.graph.nodes), 8)
    return Question("solve", rng.choice([API, HERE]), problem, options, rng.random() < 0.7, most)


def _race(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    options = {"budget": problem.budget, **_limits(rng, problem), "search": rng.choice(["on", "off"]), "threads": "2"}
    options["solver"] = ",".join(rng.sample(["cp-sat", "highs", "scip"], rng.choice([2, 2, 3])))
    options["formulation"] = rng.choice(["staged", "staged", "checkmate-milp", "checkmate-milp-strengthened"])
    limited = options["formulation"] == "staged"
    if not limited:
        options["search"] = "off"
    most = _most(rng, len(problem.graph.nodes), 3) if limited else None
    return Question("race", rng.choice([API, HERE]), problem, options, most=most)


def _addresses(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    options = {"budget": problem.budget, **_limits(rng, problem), "addresses": True}
    options["search"] = rng.choice(["on", "only"])
    if rng.random() < 0.3:
        options["alignment"] = rng.choice(["1", "2", "4", "64"])
    return Question("addresses", rng.choice([HERE, PROCESS]), problem, options, rng.random() < 0.3)


def _strategy(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    from moccasin_mzn.strategies import strategies

    options = {"budget": problem.budget, "strategy": rng.choice([rule.name for rule in strategies()])}
    return Question("strategy", HERE, problem, {**options, "time-limit": "6"})


def _plan(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    """Slow memory in addition to recomputation, or two devices."""
    free = rng.random() < 0.5
    options = {**_limits(rng, problem), "search": rng.choice(["on", "on", "on" if free else "off", "only"])}
    options.pop("count-fixed", None)
    cost = rng.choice(["0", "0.25", "1", "3", "0.001"])
    amount = problem.amount(False, False)
    if rng.random() < 0.6:
        options |= {
            "budget": str(amount),
            "paging": True,
            "page-out-time": cost,
            "page-in-time": rng.choice([cost, "0.5"]),
        }
        if rng.random() < 0.3:
            options["slow-memory"] = str(rng.randint(1, max(1, problem.peak)))
    else:
        slow = rng.choice([":1", ":2", ":1.5", ":inf"])
        options |= {"device": f"gpu={amount} cpu={rng.randint(1, max(1, problem.peak))}{slow}", "copy-time": cost}
        if rng.random() < 0.3:
            options["copy-latency"] = "2"
    return Question("plan", rng.choice([HERE, HERE, PROCESS]), problem, options, free, rng.choice([None, 1, 3]))


def _order(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    return Question("order", HERE, problem, {"time-limit": "4", "seed": str(rng.randrange(99))})


def _frontier(rng: random.Random, problem: Problem, solvers: Sequence[str]) -> Question:
    options: dict[str, str | bool] = {"time-limit": "12", "threads": "1", "search": rng.choice(["on", "only"])}
    if rng.random() < 0.5:
        options["points"] = "5"
    else:
        least, most = problem.graph.largest_working_set().memory, max(1, problem.peak)
        options["budget"] = " ".join(sorted({str(max(1, rng.randint(min(least, most), most))) for _ in range(3)}))
    return Question("frontier", HERE, problem, options, rng.random() < 0.2, rng.choice([None, 1, 3]))
