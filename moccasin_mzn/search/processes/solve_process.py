"""The command `solve` in a process of its own: what it has found is here even if it does not live to tell the end."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.search.processes.guarded import GRACE_SECONDS, Ending, never, run_guarded
from moccasin_mzn.search.progress import TracePoint


@dataclass(frozen=True)
class Attempt:
    """What one process of `solve` has told."""

    result: dict[str, Any] | None
    """The object that `solve --json` prints; None if the process never got there."""
    trace: tuple[TracePoint, ...]
    """Every improvement told, in order of time; of a process that was killed, those up to then."""
    sequence: tuple[Any, ...] | None
    """Ids of the nodes of the latest schedule within the budget, as in the graph's file; of a plan, its actions."""
    ending: Ending
    error: dict[str, str] | None = None
    """The error that it ended with, as `InputError.as_dict` has it."""


def ignore(event: dict[str, Any]) -> None:
    """Do nothing with an event."""


def run_solve(
    arguments: Sequence[str],
    *,
    hard_limit: float | None = None,
    memory_limit: int | None = None,
    cores: frozenset[int] | None = None,
    on_event: Callable[[dict[str, Any]], None] = ignore,
    stop: Callable[[], bool] = never,
    grace: float = GRACE_SECONDS,
) -> Attempt:
    """Run `python -m moccasin_mzn solve` with `arguments`, which say nothing of --json-stream, under guard.

    Args:
        on_event: gets each object of the stream in the caller's thread, as it comes.

    The others are those of `guarded.run_guarded`.

    Raises:
        InputError: as `run_guarded`.
    """
    command = [sys.executable, "-P", "-m", "moccasin_mzn", "solve", *map(str, arguments), "--json-stream"]
    heard = _Heard(on_event)
    ending = run_guarded(
        command, hard_limit=hard_limit, memory_limit=memory_limit, cores=cores, on_line=heard.take, stop=stop,
        grace=grace,
    )  # fmt: skip
    return Attempt(heard.result, tuple(heard.trace), heard.sequence, ending, heard.error)


def run_allocate(
    arguments: Sequence[str],
    *,
    hard_limit: float | None = None,
    memory_limit: int | None = None,
    stop: Callable[[], bool] = never,
) -> Attempt:
    """Run `python -m moccasin_mzn allocate` likewise; its answer gets the keys `reason` and `seconds` of `solve`."""
    lines: list[str] = []
    command = [sys.executable, "-P", "-m", "moccasin_mzn", "allocate", *map(str, arguments), "--json"]
    ending = run_guarded(command, hard_limit=hard_limit, memory_limit=memory_limit, on_line=lines.append, stop=stop)
    result = None
    for line in lines:
        with contextlib.suppress(ValueError):
            result = json.loads(line)
    if isinstance(result, dict):
        result |= {"reason": "", "seconds": {"total": result["seconds"]}}
    return Attempt(result, (), None, ending)


@dataclass
class _Heard:
    on_event: Callable[[dict[str, Any]], None]
    result: dict[str, Any] | None = None
    trace: list[TracePoint] = field(default_factory=list)
    sequence: tuple[Any, ...] | None = None
    error: dict[str, str] | None = None

    def take(self, line: str) -> None:
        """Note one line of the stream; a line cut short by the end of the process is none."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        if event.get("type") == "result":
            self.result = event
            self.trace = [TracePoint(*point) for point in event["trace"]]  # with the bounds before any schedule
            if event["valid"]:
                self._keep(event)
        elif event.get("type") == "error":
            self.error = event
            return
        elif event.get("type") == "progress":
            value = event[event["phase"] if event["phase"] in OBJECTIVES else "duration"]
            if value is not None:
                self.trace.append(TracePoint(event["seconds"], value, event["bound"], event["source"]))
            self._keep(event)
        self.on_event(event)

    def _keep(self, event: dict[str, Any]) -> None:
        """Note the answer that an object tells, if it does."""
        answer = event.get("sequence", event.get("plan"))
        if answer is not None:
            self.sequence = tuple(answer)
