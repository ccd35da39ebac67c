"""One random graph, all questions about it, and what their replies are worth."""

from __future__ import annotations

import random
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from soaking.asking import Reply, ask, run_here, run_process
from soaking.bad_inputs import bad_command, flaws_of_refusal
from soaking.checking import check
from soaking.graphs import draw_graph
from soaking.questions import SMALL, Problem, Question, draw_problem, draw_question
from soaking.tidiness import Room
from soaking.witnesses import Witnesses, useless_too

KINDS = {
    "solve": 10, "start": 2, "strategy": 3, "order": 0.8, "frontier": 0.6, "addresses": 0.6, "plan": 1, "race": 0.3,
    "bad": 3,
}  # fmt: skip
"""Kinds of questions, and how often each is asked."""
QUESTIONS = 5
LARGE_SHARE, LARGE = 0.06, (20, 60)
"""The share of graphs that are beyond the oracle, and their nodes."""


@dataclass
class Finding:
    """Something that must not be, and how to see it again."""

    seed: int
    message: str
    command: str
    """The command line, after the program's name."""
    folder: str
    """With its files."""


@dataclass
class Tally:
    """What was done."""

    counts: Counter = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another one in."""
        self.counts.update(other.counts)
        self.findings += other.findings


@dataclass
class Trial:
    """One graph, by its seed; the same questions for the same seed."""

    seed: int
    room: Room
    keep: Path
    """Where findings go."""
    solvers: Sequence[str]
    only: str | None = None
    """This kind of questions alone."""
    announce: Callable[[str], None] = lambda line: None
    """Called with each question before it is asked."""
    report: Callable[[str], None] = lambda line: None
    """Called with each reply."""
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Tally:
        """Ask everything."""
        rng = random.Random(f"soak {self.seed}")
        large = rng.random() < LARGE_SHARE
        nodes = rng.randint(*LARGE) if large else rng.choice([1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, SMALL])
        kind, problem = self._problem(rng, nodes)
        self.tally.counts["graphs"] += 1
        self.tally.counts[f"graphs: {kind}"] += 1
        self.tally.counts[f"graphs: {'20 to 60' if large else '1 to 9'} nodes"] += 1
        witnesses = Witnesses(problem.graph)
        for _ in range(QUESTIONS):
            self._ask(rng, problem, witnesses)
            if rng.random() < 0.3:
                problem = draw_problem(rng, problem.graph)
        for line in self.room.left_behind(thoroughly=True):
            self._found(line, "the questions before")
        self.tally.counts["oracle: given up"] += witnesses.given_up
        return self.tally

    def _problem(self, rng: random.Random, nodes: int) -> tuple[str, Problem]:
        """Mostly one where budgets matter."""
        for _ in range(20):
            kind, graph = draw_graph(rng, nodes)
            if Problem(graph, "input", "").peak > graph.largest_working_set().memory or rng.random() < 0.1:
                break
        return kind, draw_problem(rng, graph)

    def _ask(self, rng: random.Random, problem: Problem, witnesses: Witnesses) -> None:
        kind = self.only or rng.choices(list(KINDS), list(KINDS.values()))[0]
        nodes = len(problem.graph.nodes)
        if (kind == "plan" and nodes > 4) or (kind == "frontier" and nodes > SMALL):
            kind = "solve"
        if kind in ("plan", "addresses") and problem.graph.workspaces is not None:
            kind = "solve"
        if kind == "bad":
            return self._ask_badly(rng, problem)
        question = draw_question(rng, problem, kind, self.solvers)
        if kind == "start" or (kind == "solve" and rng.random() < (0.6 if question.free else 0.25)):
            question = with_start(rng, question, witnesses)
        folder = self.room.emptied()
        command = shlex.join(question.arguments(folder))
        self.announce(command)
        reply = ask(question, folder)
        verdict = check(question, reply, witnesses)
        self.tally.counts.update(verdict.counts)
        self.tally.counts.update(_kinds_of(question))
        self.tally.counts[f"seconds: {question.kind}"] += reply.seconds
        self.report(f"{reply.seconds:6.2f} s  {_summary(reply)}  {command}")
        for message in (*verdict.findings, *self.room.left_behind(thoroughly=False)):
            self._found(message, command, reply)
        return None

    def _ask_badly(self, rng: random.Random, problem: Problem) -> None:
        folder = self.room.emptied()
        words = bad_command(rng, problem, folder)
        command = shlex.join(words)
        before = (folder / "graph.json").read_bytes()
        self.announce(command)
        reply = run_process(words) if rng.random() < 0.1 else run_here(words)
        self.tally.counts["bad inputs"] += 1
        self.tally.counts[f"bad inputs: {'refused' if reply.status == 2 else 'answered'}"] += 1
        self.report(f"{reply.seconds:6.2f} s  {reply.status}  {command}")
        flaws = flaws_of_refusal(words, reply)
        if (folder / "graph.json").read_bytes() != before:
            flaws.append("the graph file is overwritten")
        for message in (*flaws, *self.room.left_behind(thoroughly=False)):
            self._found(message, command, reply)

    def _found(self, message: str, command: str, reply: Reply | None = None) -> None:
        """Keep a finding, with the files of its question and what came back."""
        folder = self.keep / f"{self.seed}-{len(self.tally.findings)}"
        shutil.copytree(self.room.files, folder, dirs_exist_ok=True)
        command = command.replace(str(self.room.files), str(folder))
        parts = [message, f"moccasin-mzn {command}"]
        if reply is not None:
            parts += [f"exit status {reply.status}", reply.text, reply.errors]
        (folder / "finding.txt").write_text("\n\n".join(parts), encoding="utf-8")
        self.tally.findings.append(Finding(self.seed, message, command, str(folder)))
        self.report(f"FINDING  {message}")


def with_start(rng: random.Random, question: Question, witnesses: Witnesses) -> Question:
    """The question with a warm start, some of it useless, if a schedule is known."""
    if question.options.get("solver", "") == "gecode":
        return question
    kind_of = question.scope
    best = witnesses.best(tuple(question.order), question.budget, kind_of).sequence
    known = [best] if best is not None else [
        sequence for sequence, (judged, _) in witnesses.schedules.items()
        if judged.peak <= question.budget and kind_of.holds(question.order, sequence)
    ]  # fmt: skip
    if not known:
        return question
    base = rng.choice(known)
    start = useless_too(rng, witnesses.graph, question.order, question.budget, kind_of, base)

    return replace(question, start=start)


def _kinds_of(question: Question) -> Counter:
    """Under what a question is counted."""
    options: dict[str, Any] = question.options
    counts = Counter({"solves": 1, f"asked: {question.kind}": 1, f"how: {question.how}": 1})
    if question.kind in ("solve", "race"):
        model = options.get("search") != "only"
        form = " ".join(
            [question.formulation, *(str(options[name]) for name in ("precedence", "index") if name in options)]
        )  # fmt: skip
        counts[f"formulation: {form if model else 'none, searches only'}"] += 1
        counts[f"solver: {options.get('solver', 'cp-sat') if model else 'none'}"] += 1
    if question.kind == "strategy":
        counts["formulation: a strategy"] += 1
    order = question.problem.order
    counts[f"order: {'free' if question.free else order if isinstance(order, str) else 'a file'}"] += 1
    if question.start is not None:
        counts["with a warm start"] += 1
    return counts


def _summary(reply: Reply) -> str:
    try:
        document = reply.document()
    except ValueError:
        return f"{reply.status}"
    return f"{reply.status} {document.get('status', '')} {document.get('duration', '')}"
