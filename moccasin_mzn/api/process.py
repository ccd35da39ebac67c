"""A request in a process of its own: what it has found is kept even if the process dies before its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from moccasin_mzn.api.request import AllocationRequest, Request
from moccasin_mzn.base.clock import never
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.search.processes.guarded import GRACE_SECONDS, Ending, run_guarded
from moccasin_mzn.search.result import ADDRESSES, TracePoint

WORKER = "moccasin_mzn.api.worker"


@dataclass(frozen=True)
class Attempt:
    """The reports of one process."""

    result: JsonObject | None
    """The object that `solve --json` prints; None if the process never got there."""
    trace: tuple[TracePoint, ...]
    """Every improvement reported, in order of time; of a process that was killed, those up to then."""
    sequence: tuple[object, ...] | None
    """Ids of the nodes of the latest schedule within the budget, as in the graph; or the actions of the latest plan."""
    ending: Ending
    error: dict[str, str] | None = None
    """The error at its end, as by `InputError.as_dict`."""


def ignore(event: JsonObject) -> None:
    """Do nothing with an event."""


def run_request(
    request: Request | AllocationRequest,
    *,
    hard_limit: float | None = None,
    memory_limit: int | None = None,
    cores: frozenset[int] | None = None,
    on_event: Callable[[JsonObject], None] = ignore,
    stop: Callable[[], bool] = never,
    grace: float = GRACE_SECONDS,
) -> Attempt:
    """Have a worker answer a request, under guard.

    Args:
        on_event: called with each object that the worker reports, in the caller's thread.

    The others are those of `guarded.run_guarded`.

    Raises:
        InputError: as `run_guarded`.
    """
    transcript = _Transcript(on_event)
    ending = run_guarded(
        [sys.executable, "-P", "-m", WORKER], text=request.to_json(), hard_limit=hard_limit, memory_limit=memory_limit,
        cores=cores, on_line=transcript.take, stop=stop, grace=grace,
    )  # fmt: skip
    return Attempt(transcript.result, tuple(transcript.trace), transcript.sequence, ending, transcript.error)


@dataclass
class _Transcript:
    on_event: Callable[[JsonObject], None]
    result: JsonObject | None = None
    trace: list[TracePoint] = field(default_factory=list)
    sequence: tuple[object, ...] | None = None
    error: dict[str, str] | None = None

    def take(self, line: str) -> None:
        """Note one line of the stream; a line cut short by the end of the process is not counted."""
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
        elif event.get("type") == "progress" and event["phase"] != ADDRESSES:
            value = event[event["phase"] if event["phase"] in OBJECTIVES else "duration"]
            if value is not None:
                self.trace.append(TracePoint(event["seconds"], value, event["bound"], event["source"]))
            self._keep(event)
        self.on_event(event)

    def _keep(self, event: JsonObject) -> None:
        """Note the answer that an object has, if there is one."""
        answer = event.get("sequence", event.get("plan"))
        if answer is not None:
            self.sequence = tuple(answer)
