"""What must be true of a reply, whatever was asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from soaking.asking import Reply, is_reported
from soaking.exact_plans import account_of_plan, best_plan, plan_in_scope
from soaking.exact_questions import exact_graph
from soaking.judging import FIRST, FREE, STAGED, Scope, account, arena_flaw
from soaking.oracle import least_peak
from soaking.plans import machine_of_options
from soaking.questions import SMALL, Question
from soaking.witnesses import Claim, Witnesses

CAREFUL = "not provable in floating point"
"""What a solver's claim is called that cannot be confirmed."""
REFUSALS = (
    "is for training chains", "chains", "backward", "linearise", "2**53", "32 bit", "32-bit", "too large", "alignment",
    "has no parts",
)  # fmt: skip
"""Words of refusals that are in order: a strategy for other graphs, or numbers beyond what a solver can hold."""


@dataclass(frozen=True)
class Verdict:
    """What the checks found."""

    findings: tuple[str, ...]
    counts: Counter
    """What was proven, refuted and left open, for the table."""


def check(question: Question, reply: Reply, witnesses: Witnesses) -> Verdict:
    """Hold a reply against the definition and against all that is known of the graph."""
    counts: Counter = Counter()
    refused = _refused(question, reply)
    if refused is not None:
        counts["refused"] += 1
        return Verdict(tuple(refused), counts)
    try:
        document = reply.document()
    except ValueError as error:
        return Verdict((f"stdout is no JSON object: {error}",), counts)
    checks = {"order": _order, "frontier": _frontier, "plan": _plan}.get(question.kind, _schedule)
    found = list(checks(question, document, reply, witnesses, counts))
    limit = float(question.options.get("time-limit", math.inf))
    if reply.seconds > 2 * limit + 20:
        counts["notes: much later than the limit"] += 1
    return Verdict(tuple(found), counts)


def _refused(question: Question, reply: Reply) -> list[str] | None:
    """Findings if there was no answer; None if there is one."""
    if "Traceback (most recent call last)" in reply.errors or reply.status not in (0, 1, 2):
        return [f"exit status {reply.status}: {reply.errors[-3000:]}"]
    if reply.status != 2:
        return None
    lines = reply.errors.strip().splitlines()
    found = [] if lines and lines[-1].startswith("error: ") else [f"refused without an error line: {reply.errors!r}"]
    if not is_reported(reply):
        found.append(f"refused, but stdout has {reply.text[:80]!r}")
    may = question.kind in ("strategy", "plan", "addresses") or question.options.get("solver") in (
        "gecode",
        "scip",
        "highs",
    )
    if not may or not any(word in reply.errors for word in REFUSALS):
        found.append(f"a good question is refused: {lines[-1] if lines else ''}")
    return found


# Schedules of one memory


def _schedule(
    question: Question, document: dict[str, Any], reply: Reply, witnesses: Witnesses, counts: Counter
) -> Iterator[str]:
    graph, order, budget = question.problem.graph, question.order, question.budget
    first = account(graph, order)
    for name, expected in (("budget", budget), ("baseline_peak", first.peak), ("baseline_duration", first.duration)):
        if document[name] != expected:
            yield f"{name} is {document[name]}, not {expected}"
    valid = document["valid"]
    if (reply.status == 0) != bool(valid):
        yield f"exit status {reply.status} with valid {valid}"
    if valid != (document["status"] in ("optimal", "feasible")):
        yield f"status {document['status']} with valid {valid}"
    if document["sequence"] is not None:
        yield from _sequence(question, document, witnesses)
    elif document["duration"] is not None or document["intervals"] is not None:
        yield "figures without a schedule"
    yield from _incumbents(document, valid)
    yield from _steps(question, reply, witnesses)
    yield from _claims(question, document, witnesses, counts)


def _sequence(question: Question, document: dict[str, Any], witnesses: Witnesses) -> Iterator[str]:
    graph, budget = question.problem.graph, question.budget
    position = {node: v for v, node in enumerate(graph.nodes)}
    if not set(document["sequence"]) <= set(position):
        yield "the schedule has a node that the graph has not"
        return
    sequence = tuple(position[node] for node in document["sequence"])
    judged = account(graph, sequence)
    if judged.flaw:
        yield f"the schedule is none: {judged.flaw}"
        return
    for name, expected in (("duration", judged.duration), ("peak", judged.peak)):
        if document[name] != expected:
            yield f"{name} is {document[name]}, not {expected}"
    reported = [(position[of["node"]], of["start"], of["end"]) for of in document["intervals"]]
    if reported != list(judged.intervals):
        yield f"retention intervals are {reported}, not {list(judged.intervals)}"
    base = account(graph, question.order).duration
    increase = 100 * (judged.duration / base - 1) if base else 0.0
    if not math.isclose(document["tdi_percent"], increase, abs_tol=1e-9):
        yield f"tdi_percent is {document['tdi_percent']}, not {increase}"
    if not document["valid"]:
        if judged.peak <= budget and "arena" not in document:
            yield "a schedule within the budget is not valid"
        return
    if judged.peak > budget:
        yield f"the schedule's peak {judged.peak} is over the budget {budget}"
    yield from _form(question, document, sequence)
    if question.start is not None and judged.duration > account(graph, question.start).duration:
        yield "longer than the warm start"
    yield from filter(None, [witnesses.add(sequence, "an answer")])


def _form(question: Question, document: dict[str, Any], sequence: Sequence[int]) -> Iterator[str]:
    """Counts of computations, the order, and offsets."""
    graph = question.problem.graph
    if question.limited:
        reported = document["max_computations"]
        most = tuple(reported) if isinstance(reported, list) else (reported,) * len(graph.nodes)
        if any(count > most[v] for v, count in Counter(sequence).items()):
            yield f"a node is computed more often than {reported} times"
        if any(map(int.__lt__, most, question.allowed)):
            yield f"max_computations is {reported}, asked for was {question.allowed}"
    if question.scope.kind == STAGED and tuple(dict.fromkeys(sequence)) != tuple(question.order):
        yield "first computations are not in the input order"
    if question.kind == "addresses":
        alignment = int(question.options.get("alignment", 1))
        intervals, offsets = account(graph, sequence).intervals, [of["offset"] for of in document["intervals"]]
        yield from filter(None, [arena_flaw(graph, intervals, offsets, alignment)])
        ends = [offset + graph.sizes[v] for (v, _, _), offset in zip(intervals, offsets, strict=True) if graph.sizes[v]]
        if document["arena"] != max(ends, default=0) or document["arena"] > question.budget:
            yield f"the arena is {document['arena']}, ends at {max(ends, default=0)}, and may be {question.budget}"


def _incumbents(document: dict[str, Any], valid: bool) -> Iterator[str]:
    """Status, duration, bound and trace go together."""
    duration, bound, status = document["duration"], document["duration_bound"], document["status"]
    if valid and duration < bound:
        yield f"duration {duration} is below the bound {bound}"
    if status == "optimal" and duration != bound:
        yield f"optimal with duration {duration} and bound {bound}"
    gap = 100 * (duration - bound) / duration if valid and duration else 0.0 if valid else None
    if (gap is None) != (document["gap_percent"] is None) or gap and not math.isclose(gap, document["gap_percent"]):
        yield f"gap_percent is {document['gap_percent']}, not {gap}"
    trace = document["trace"]
    for before, after in zip(trace, trace[1:], strict=False):
        longer = before[1] is not None and (after[1] is None or after[1] > before[1])
        if longer or after[2] < before[2] or after[0] < before[0]:
            yield f"the trace goes from {before} to {after}"


def _steps(question: Question, reply: Reply, witnesses: Witnesses) -> Iterator[str]:
    """What a function reported on the way: schedules that are some."""
    for duration, _, sequence in reply.steps:
        if sequence is None:
            continue
        judged = account(question.problem.graph, [int(v) for v in sequence])
        if judged.flaw or judged.peak > question.budget or judged.duration != duration:
            yield f"on the way: {sequence} is reported to take {duration}, and is {judged}"


def scope_of(question: Question, document: dict[str, Any]) -> Scope:
    """What a proof ranges over: the question's scope, or more by its reason."""
    reason, scope = document["reason"], question.scope
    reported = document.get("max_computations")
    if question.limited and reported is not None:
        scope = Scope(scope.kind, tuple(reported) if isinstance(reported, list) else (reported,) * len(scope.most))
    if "alone needs" in reason or "to compute node" in reason:
        return Scope(FREE, (10**6,) * len(scope.most))
    if scope.kind == STAGED and FIRST in reason:
        return Scope(FIRST, scope.most)
    return scope


def _claims(question: Question, document: dict[str, Any], witnesses: Witnesses, counts: Counter) -> Iterator[str]:
    status, bound = document["status"], document["duration_bound"]
    scope = scope_of(question, document)
    best = witnesses.best(question.order, question.budget, scope)
    known = "checked" if best.complete else "compared with what is known"
    if status == "infeasible":
        counts[f"infeasible, {known}"] += 1
    elif status == "optimal":
        counts[f"optimal, {known}"] += 1
    else:
        counts[f"bounds, {known}"] += 1
    again = document["valid"] and len(document["sequence"]) > len(question.problem.graph.nodes)
    counts[f"answers: {'recomputations' if again else 'every node once' if document['valid'] else 'none'}"] += 1
    if question.formulation:
        _note(question, document, scope, witnesses, counts)
    if CAREFUL in " ".join([document["reason"], *document["notes"]]):
        counts["notes: claims not provable in floating point"] += 1
    beyond = question.kind == "addresses" and "alone needs" not in document["reason"]
    if beyond:  # an arena may need more than any schedule without one
        if best.complete and (best.sequence is None) != (status == "infeasible"):
            counts["notes: addresses answered otherwise than without them"] += 1
        return
    claim = Claim(tuple(question.order), question.budget, scope, None if status == "infeasible" else bound)
    yield from filter(None, [witnesses.refutes(claim, f"an answer ({status})")])
    if question.start is not None and status in ("infeasible", "unknown"):
        yield f"{status} in spite of a warm start"


def _note(
    question: Question, document: dict[str, Any], scope: Scope, witnesses: Witnesses, counts: Counter
) -> None:  # fmt: skip
    """Count what is no finding, but could be better."""
    status, duration, options = document["status"], document["duration"], question.options
    if question.kind == "solve" and (options.get("search") == "off" or not question.limited):
        counts[f"models alone: {options['solver']}, {status}"] += 1
    best = witnesses.best(question.order, question.budget, scope)
    if status not in ("optimal", "infeasible"):
        counts[f"notes: {status}, {_truth(best.complete, best.sequence)}"] += 1
    if scope.kind == FREE and question.limited and status != "optimal":
        staged = witnesses.best(question.order, question.budget, Scope(STAGED, scope.most)).sequence
        if staged is not None and (duration is None or duration > account(question.problem.graph, staged).duration):
            counts["notes: any order, longer than the best in stages"] += 1


def _truth(complete: bool, sequence: Sequence[int] | None) -> str:
    if not complete:
        return "truth not known"
    return "nothing fits" if sequence is None else "a schedule fits"


# Orders, frontiers and plans


def _order(
    question: Question, document: dict[str, Any], reply: Reply, witnesses: Witnesses, counts: Counter
) -> Iterator[str]:
    graph = question.problem.graph
    position = {node: v for v, node in enumerate(graph.nodes)}
    judged = account(graph, [position[node] for node in document["order"]])
    if judged.flaw or len(document["order"]) != len(graph.nodes):
        yield f"the order is none: {judged.flaw or 'a node comes twice'}"
        return
    peak, bound, status = document["peak"], document["bound"], document["status"]
    if peak != judged.peak or document["input_peak"] != question.problem.peak or peak > document["input_peak"]:
        yield f"peaks {peak} and {document['input_peak']}, not {judged.peak} and {question.problem.peak}"
    if bound > peak or (status == "optimal") != (bound == peak) or reply.status != 0:
        yield f"peak {peak}, bound {bound}, {status}, exit status {reply.status}"
    if len(graph.nodes) <= SMALL + 3:
        counts["optimal, checked" if status == "optimal" else "bounds, checked"] += 1
        least = least_peak(graph)
        if bound > least or peak < least:
            yield f"peak {peak} and bound {bound}, but the least peak is {least}"


def _frontier(
    question: Question, document: dict[str, Any], reply: Reply, witnesses: Witnesses, counts: Counter
) -> Iterator[str]:
    """Each point is the answer to a question of its own; the least budgets are claims and schedules as well."""
    graph, order, scope = question.problem.graph, tuple(question.order), question.scope
    position = {node: v for v, node in enumerate(graph.nodes)}
    widest = Scope(FIRST if scope.kind == STAGED and FIRST in document["proofs"] else scope.kind, scope.most)
    if reply.status != (0 if any(point["sequence"] for point in document["points"]) else 1):
        yield f"exit status {reply.status}"
    for point in document["points"]:
        at, status = point["budget"], point["status"]
        best = witnesses.best(order, at, widest)
        counts[f"{status if status in ('optimal', 'infeasible') else 'bounds'}, {_known(best.complete)}"] += 1
        if point["sequence"] is not None:
            sequence = tuple(position[node] for node in point["sequence"])
            judged = account(graph, sequence)
            if judged.flaw or (judged.duration, judged.peak) != (point["duration"], point["peak"]) or judged.peak > at:
                yield f"budget {at}: {judged} is reported as duration {point['duration']}, peak {point['peak']}"
                continue
            if (status == "optimal") != (judged.duration == point["duration_bound"]):
                yield f"budget {at}: {status}, {judged.duration}, bound {point['duration_bound']}"
            yield from filter(None, [witnesses.add(sequence, "a frontier")])
        claim = Claim(order, at, widest, None if status == "infeasible" else point["duration_bound"])
        yield from filter(None, [witnesses.refutes(claim, "a frontier")])
    claim = Claim(order, document["least_bound"] - 1, widest, None)
    yield from filter(None, [witnesses.refutes(claim, "a frontier's least budget")])


def _known(complete: bool) -> str:
    return "checked" if complete else "compared with what is known"


def _plan(
    question: Question, document: dict[str, Any], reply: Reply, witnesses: Witnesses, counts: Counter
) -> Iterator[str]:
    graph, tiny = question.problem.graph, exact_graph(question.problem.graph)
    names, machine = machine_of_options(graph, question.options)
    count = question.most if isinstance(question.most, int) else 2
    most = [[1 if row is None and "paging" in question.options else count] * tiny.n for row in machine.compute]
    tiny.order = list(question.order)
    status, bound = document["status"], document["bound"]
    position = {node: v for v, node in enumerate(graph.nodes)}
    if (reply.status == 0) != (document["plan"] is not None) or document["valid"] != (document["plan"] is not None):
        yield f"exit status {reply.status}, valid {document['valid']}"
    if document["plan"] is not None:
        plan = [_step(entry, position, names) for entry in document["plan"]]
        judged = account_of_plan(tiny, machine, plan)
        if judged.flaws or not plan_in_scope(tiny, machine, plan, "free", most):
            flaws = [kind.replace("-", " ") for kind, _ in judged.flaws] or ["a node has too many copies"]
            yield f"the plan is none: {', '.join(flaws)}"
        found = (document["duration"], *(document["peaks"][name] for name in names))
        if not judged.flaws and found != (judged.totals[0], *judged.peaks):
            yield f"duration and peaks are shown as {found}, not {(judged.totals[0], *judged.peaks)}"
        if document["duration"] < bound or (status == "optimal") != (document["duration"] == bound):
            yield f"{status} with duration {document['duration']} and bound {bound}"
    certain, staged = True, "staged" if "paging" in question.options else "slots"
    try:
        best = best_plan(tiny, machine, "free" if question.free else staged, most)
    except MemoryError:
        certain, best = False, None
    counts[f"{status if status in ('optimal', 'infeasible') else 'bounds'}, {_known(certain)}"] += 1
    if best is not None and (status == "infeasible" or bound > best[0]):
        yield f"{status}, bound {bound}, but the plan {best[1]} takes {best[0]}"


def _step(entry: dict[str, Any], position: dict[Any, int], names: Sequence[str]) -> tuple[int, int, int | None]:
    if "compute" in entry:
        return position[entry["compute"]], names.index(entry["in"]), None
    return position[entry["copy"]], names.index(entry["to"]), names.index(entry["from"])
