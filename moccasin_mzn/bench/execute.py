"""Execution of one run of an experiment: a process with limits, and the row and trace that the store gets."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from multiprocessing import resource_tracker

import psutil

from moccasin_mzn.api.process import Attempt, run_request
from moccasin_mzn.base.clock import never
from moccasin_mzn.base.errors import InputError, NotApplicableError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.bench.columns import INTEGER_BITS, TRACE_VALUES, Row
from moccasin_mzn.bench.matrix import Run, parsed, unpacked
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.files.plans import claimed_plan
from moccasin_mzn.problem.files.schedules import claimed_schedule
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.validate import validate_plan, validate_schedule
from moccasin_mzn.search.processes.guarded import Ending
from moccasin_mzn.search.result import percent_over

_KILLED = {"time": "out-of-time", "memory": "out-of-memory"}
_REASON_CHARACTERS = 500
_DENSE = (",", ":")
_ANSWER = (
    "peak", "duration", "tdi_percent", "duration_bound", "gap_percent", "schedule", "value", "bound", "arena",
    "memories",
)  # fmt: skip


@dataclass(frozen=True)
class RunOutcome:
    """The row and the trace of one run, for the store."""

    row: Row
    trace: tuple[Row, ...]


def execute(run: Run, stop: Callable[[], bool] = never) -> RunOutcome | None:
    """Execute a run and return its outcome, errors and crashes included; None if `stop`, which is polled, was true."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    text = unpacked(run.graph)
    graph = None if run.allocates else parsed(text)
    attempt = _attempt(run, text if graph is None else graph, stop)
    if attempt.ending.how == "stopped":
        return None
    status, reason = _status(run, attempt)
    ending, result = attempt.ending, attempt.result or {}
    row = {
        **run.row,
        "status": status,
        "reason": " ".join(reason.split())[:_REASON_CHARACTERS],
        **{name: result.get(name) for name in ("solver_version", "driver")},
        **(_judged_arena(run, attempt, text) if graph is None else _schedule(run, attempt, graph)),
        "seconds": round(ending.seconds, 3),
        "cpu_seconds": round(ending.cpu_seconds, 3),
        "memory_peak": ending.memory_peak,
        "solve_seconds": result["seconds"]["total"] if result else None,
        "started": started,
        "machine": machine(),
        "version": version("moccasin_mzn"),
    }
    trace = (dict(zip(TRACE_VALUES, (p.seconds, p.value, p.bound, p.source), strict=True)) for p in attempt.trace)
    return _storable(RunOutcome(row, tuple(trace)))


def _attempt(run: Run, given: ComputationGraph | str, stop: Callable[[], bool]) -> Attempt:
    """Run a process for the request; or return the refusal of the request, without a process."""
    try:
        request = run.request(given)
    except InputError as error:
        ending = Ending("exited", 2, f"error: {error}", 0.0, 0.0, 0)
        return Attempt(None, (), None, ending, error.as_dict())
    return run_request(request, hard_limit=run.hard_limit, memory_limit=run.row["memory_limit"], stop=stop)


def _storable(outcome: RunOutcome) -> RunOutcome:
    """Return the outcome, or an error in its place if an integer is too large for a store."""
    large = {name: value for name, value in outcome.row.items() if _is_large(value)}
    if not large and not any(_is_large(value) for point in outcome.trace for value in point.values()):
        return outcome
    name, value = next(iter(large.items()), ("a bound", ""))
    reason = f"{name} {value} is too large for a store, which has integers below 2^{INTEGER_BITS}"
    nothing = dict.fromkeys((*large, *_ANSWER))
    return RunOutcome({**outcome.row, **nothing, "status": "error", "reason": reason, "valid": False}, ())


def _is_large(value: object) -> bool:
    return type(value) is int and value.bit_length() > INTEGER_BITS


def _status(run: Run, attempt: Attempt) -> tuple[str, str]:
    """Return status and reason; an answer counts even if the process was killed after it."""
    ending, result = attempt.ending, attempt.result
    if result is not None:
        return result["status"], result["reason"]
    if ending.how in _KILLED:
        limit = f"{run.hard_limit:g} s" if ending.how == "time" else memory_text(run.row["memory_limit"], "byte")
        return _KILLED[ending.how], f"killed at its limit of {limit}"
    last = (ending.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if ending.how == "lost":
        return "crashed", f"its supervisor died: {last}"
    if ending.exit_status == 2:
        kind = attempt.error["kind"] if attempt.error and run.row["strategy"] else ""
        status = NotApplicableError.kind if kind == NotApplicableError.kind else "error"
        return status, last.removeprefix("error: ")
    return "crashed", f"exit status {ending.exit_status}: {last}"


def _schedule(run: Run, attempt: Attempt, graph: ComputationGraph) -> Row:
    """Judge the schedule or plan of a run, or the latest one in the trace of a run that was killed."""
    result = attempt.result or {}
    several = run.method.memories is not None
    bound = result.get("bound" if several else "duration_bound")
    if bound is None and attempt.trace:
        bound = attempt.trace[-1].bound
    steps = attempt.sequence if several else result.get("sequence") or attempt.sequence
    of_duration = run.row["objective"] == "duration"
    found = {"valid": False, "bound": bound, "duration_bound": bound if of_duration else None}
    if steps is None:
        return found
    judged = (_judged_plan if several else _judged_schedule)(run, {**result, "sequence": steps, "plan": steps}, graph)
    value = judged["value"]
    return {
        **found,
        **judged,
        "tdi_percent": percent_over(judged["duration"], run.row["baseline_duration"]),
        "gap_percent": _gap(value, bound) if judged["valid"] and bound is not None else None,
        "schedule": json.dumps(steps, separators=_DENSE),
    }


def _gap(value: int, bound: int) -> float:
    return 100 * (value - bound) / value if value else 0.0


def _judged_arena(run: Run, attempt: Attempt, text: str) -> Row:
    if attempt.result is None:
        return {"valid": False}
    result = attempt.result
    buffers = parse_buffers(text, run.row["graph"])
    offsets = tuple(result["offsets"].get(buffer.name) for buffer in buffers)
    try:
        arena = Arena(buffers, offsets, run.method.alignment)
    except InputError:
        return {"valid": False}
    found = {"value": arena.size, "arena": arena.size, "bound": result["arena_bound"], "peak": arena.peak}
    gap = _gap(arena.size, result["arena_bound"])
    return {"valid": True, **found, "gap_percent": gap, "schedule": json.dumps(offsets, separators=_DENSE)}


def _judged_schedule(run: Run, result: JsonObject, graph: ComputationGraph) -> Row:
    graph = run.method.graph(graph)
    claimed = claimed_schedule({**result, "sequence": list(result["sequence"])}, graph)
    claimed = replace(claimed, alignment=run.method.alignment)
    simulation = simulate(graph, claimed.sequence)
    placed = claimed.offsets is not None or not run.method.options.get("addresses")
    return {
        "valid": placed and not validate_schedule(graph, claimed, run.row["budget_amount"]),
        "peak": simulation.peak,
        "duration": simulation.duration,
        "value": simulation.duration,
        "arena": claimed.arena,
    }


def _judged_plan(run: Run, result: JsonObject, graph: ComputationGraph) -> Row:
    """Judge a plan by the budgets and limits of the request; those in the run's result do not count."""
    problem = run.method.problem(graph, str(run.row["budget_amount"]), count_fixed=False)
    requested = {name: value for name, value in problem.settings().items() if name in ("platform", "goal")}
    claimed = claimed_plan(json.loads(json.dumps({**result, **requested})), graph)
    claimed = replace(claimed, alignment=run.method.alignment)
    simulation, arenas = validate_plan(claimed), dict(claimed.arenas)
    placed = claimed.placed is not None or not run.method.options.get("addresses")
    memories = {
        place.name: {"budget": place.budget, "peak": simulation.peaks[m], "arena": arenas.get(m)}
        for m, place in enumerate(problem.platform.memories)
    }
    return {
        "valid": placed and simulation.feasible,
        "peak": simulation.peaks[0],
        "duration": simulation.duration,
        "value": problem.value(simulation),
        "arena": arenas.get(0),
        "memories": json.dumps(memories),
    }


@cache
def machine() -> str:
    """Describe this machine in a few words: processor, cores, memory."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # Linux
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        model = next(names, model)
    memory = psutil.virtual_memory().total / 2**30
    return f"{model}, {count_text(psutil.cpu_count(), 'core')}, {memory:.0f} GiB"


# --- Signals in workers; dask loads this module first in each worker of this machine (see `cluster._local`) ---


BLOCKED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name))
"""Signals from a terminal. Only `bench run` itself handles them, and stops its workers in good order."""


@contextlib.contextmanager
def blocked_signals() -> Iterator[None]:
    """Block the terminal's signals: in this process until the end of the block, in those it starts for good."""
    resource_tracker.ensure_running()  # else the first child starts it, which lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(worker: object) -> None:
    """Leave the terminal's process group, and unblock signals, also for the runs that this worker will start."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
