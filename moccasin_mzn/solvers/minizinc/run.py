"""One run of a model: improving solutions as they come, and how it ended."""

from __future__ import annotations

import contextlib
import json
import math
import queue
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

from moccasin_mzn.base.clock import POLL_SECONDS
from moccasin_mzn.base.environment import ended
from moccasin_mzn.base.errors import InputError, out_of_memory
from moccasin_mzn.base.files import Json
from moccasin_mzn.solvers.minizinc.solvers import Backend

GRACE_SECONDS = 10
"""How long after its time limit MiniZinc may take to end before it is stopped from here."""
LONGEST_SECONDS = 2_000_000
"""MiniZinc 2.6 counts milliseconds in 32 bits."""


STATUSES = {"OPTIMAL_SOLUTION": "optimal", "ALL_SOLUTIONS": "optimal", "UNSATISFIABLE": "infeasible"}
"""The status of a run, by the name of a `minizinc.Status` that proves something."""


class SolverError(InputError):
    """MiniZinc or the solver failed; the message is its own, in one line."""

    kind = "solver"


Solution: TypeAlias = Any
"""A solution, as minizinc-python makes its class: the arrays of a model are attributes."""
Named: TypeAlias = dict[str, Any]
"""Options of a run, or statistics of it, by name, as minizinc-python has them."""


@dataclass(frozen=True)
class Limits:
    """Resources of a run. None: no limit, the solver's own number of threads, the solver's own seed."""

    seconds: float | None = None
    threads: int | None = None
    seed: int | None = None
    parameters: str = ""
    """Parameters of CP-SAT, as text protocol buffer; other solvers do not get them."""


@dataclass
class Outcome:
    """How a run ended."""

    status: str = "unknown"
    """"optimal" (proven), "feasible", "infeasible" (proven) or "unknown"."""
    claim: str = ""
    """"optimal" or "infeasible": what one of our solvers in floating point claims and could not prove; else empty."""
    confirmed_by: str = ""
    """Who confirmed its claim; empty if its own word is enough."""
    interrupted: bool = False
    """True if the user stopped the run."""
    flatten_seconds: float | None = None
    """Time MiniZinc took to compile the model."""
    seconds: float = 0.0
    """Time of the whole run."""
    solver_version: str = ""
    """What the process that solved reported of itself, such as "OR-Tools 9.15.6755"; empty if nothing."""


@dataclass(frozen=True)
class OutputListener:
    """What is called while a run goes on."""

    solution: Callable[[Solution], None]
    """Gets the arrays of every improving solution, as attributes."""
    bound: Callable[[int], None]
    """Gets the bound on the objective, whenever it is reported."""
    confirmed: Callable[[str], None] = lambda by: None
    """Gets the name of who has confirmed what the solver claims, before the bound that is now proven."""


def run_model(
    backend: Backend,
    model: Path | str,
    data: str,
    limits: Limits,
    listener: OutputListener,
    stop: Callable[[], bool] = lambda: False,
    warm_start: bool = True,
) -> Outcome:
    """Compile `model` with the `.dzn` text `data` and solve it, unless `stop()`, asked ten times a second, is true.

    MiniZinc is driven from a thread of its own, so that this works inside a running event loop too; the listener is
    called in the caller's thread. An interrupt from the keyboard stops the run and is reported in the outcome, not
    raised. Whatever ends the run, MiniZinc and the solver are stopped before this returns. `warm_start` states whether
    there may be a schedule in the data to start from. A model may be a text.

    Raises:
        SolverError: MiniZinc or the solver failed.
    """
    outcome = Outcome()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        data_file = Path(folder) / "instance.dzn"
        data_file.write_text(data, encoding="utf-8")
        model = model_file(model, Path(folder))
        options = _options(backend, limits, warm_start)
        patience = None if limits.seconds is None else limits.seconds + GRACE_SECONDS
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        options["debug_output"] = Path(folder) / "stderr"
        job = _Job(lambda: _stream(backend, [model, data_file], options, patience, events.put), events.put)
        job.start()
        try:
            _dispatch(events, listener, outcome, stop, job)
        except KeyboardInterrupt:
            outcome.interrupted = True
            job.cancel()
            with contextlib.suppress(SolverError):  # MiniZinc got the same signal
                _dispatch(events, listener, outcome, lambda: False, job)
        finally:
            job.cancel()
            job.join(GRACE_SECONDS)
    outcome.seconds = time.monotonic() - begin
    return outcome


def model_file(model: Path | str, folder: Path) -> Path:
    """The file of a model; that of a text is written into the folder."""
    if isinstance(model, str):
        path = folder / "model.mzn"
        path.write_text(model, encoding="utf-8")
        return path
    return model


def reported_version(backend: Backend | None, outcomes: Sequence[Outcome]) -> str | None:
    """The solver and its version for a result: as a process that solved reported it; else what `backend` is known
    as."""
    versions = [outcome.solver_version for outcome in outcomes if outcome.solver_version]
    return versions[-1] if versions else None if backend is None else backend.solver_version


Event = tuple[str, Any]
"""What the thread reports: ("solution", arrays), ("status", Status), ("statistics", dict), and ("end", None or
error)."""


def _dispatch(
    events: queue.SimpleQueue[Event], listener: OutputListener, outcome: Outcome, stop: Callable[[], bool], job: _Job
) -> None:
    """Take events up to the end of the run.

    Raises:
        SolverError: the run ended with one, and not because it was stopped.
    """
    stopped, asked = False, time.monotonic()
    while True:
        if not stopped and time.monotonic() > asked + POLL_SECONDS:
            stopped, asked = stop(), time.monotonic()
            if stopped:
                job.cancel()
        try:
            kind, content = events.get(timeout=POLL_SECONDS)
        except queue.Empty:
            continue
        if kind == "end" and (stopped or stop()):
            return
        if kind == "solution":
            outcome.status = "feasible"
            listener.solution(content)
        elif kind == "status":
            outcome.status = STATUSES.get(content.name, outcome.status)
        elif kind == "statistics":
            _note_statistics(content, listener, outcome)
        elif content is None:
            return
        else:
            raise content


class _Job(threading.Thread):
    """Runs a coroutine in an event loop of its own, until it ends or is cancelled."""

    def __init__(self, coroutine: Callable[[], Coroutine[object, object, None]], put: Callable[[Event], None]) -> None:
        super().__init__(name="minizinc", daemon=True)
        self._coroutine = coroutine
        self._put = put
        self._lock = threading.Lock()
        self._cancel_task: Callable[[], object] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Stop the coroutine, which ends its processes; without effect after its end."""
        with self._lock:
            self._cancelled = True
            if self._cancel_task is not None:
                self._cancel_task()

    def run(self) -> None:
        import asyncio  # which takes some 15 ms to import

        error: Exception | None = None
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception as failure:
            error = out_of_memory(failure) or failure
        self._put(("end", error))

    async def _main(self) -> None:
        import asyncio

        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        loop.set_exception_handler(lambda loop, context: None)  # of what is cancelled while it starts
        with self._lock:
            if self._cancelled:
                return
            self._cancel_task = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            await self._coroutine()
        finally:
            with self._lock:
                self._cancel_task = None


async def _stream(
    backend: Backend, files: list[Path], options: Named, patience: float | None, put: Callable[[Event], None]
) -> None:
    import asyncio

    import minizinc

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minizinc.error.MiniZincWarning)
            instance = _listening(minizinc.Instance)(backend.solver, None, backend.found.minizinc)
            instance.heard = lambda statistics: put(("statistics", dict(statistics)))
            for file in files:
                instance.add_file(file, parse_data=False)
            answered = False
            async with asyncio.timeout(patience):
                async for result in instance.solutions(**options):
                    if result.solution is not None:
                        put(("solution", result.solution))
                    put(("status", result.status))
                    answered = answered or result.solution is not None or result.status != minizinc.Status.UNKNOWN
            if not answered:
                _check_silence(backend, options["debug_output"])
    except TimeoutError:
        pass  # what was found until then stands
    except minizinc.error.MiniZincError as error:
        # A message of the package's own instead of MiniZinc's means that there was none.
        text = "" if "did not output an error message" in str(error) else str(error)
        raise SolverError(f"{backend.name}: {backend.found.real_message(text)}") from None
    except UnicodeDecodeError as error:
        text = error.object.decode(errors="replace")
        raise SolverError(f"{backend.name}: {backend.found.real_message(text)}") from None
    except OSError as error:
        raise SolverError(f"{backend.name}: MiniZinc cannot be run: {error.strerror or error}") from None


def _check_silence(backend: Backend, stderr: Path) -> None:
    """Some solvers end without a word, and successfully, although they cannot work, as for want of a licence.

    Raises:
        SolverError: one that found and proved nothing reported an error on stderr.
    """
    message = backend.found.real_message(stderr.read_text(encoding="utf-8", errors="replace"))
    if "rror" in message:
        raise SolverError(f"{backend.name}: {message}")


def _options(backend: Backend, limits: Limits, warm_start: bool = True) -> Named:
    """Flags, as far as the solver has them.

    Gecode searches as the model's annotations prescribe, others freely. Chuffed must not search freely from a warm
    start: it then returns solutions that violate constraints, and calls them optimal (libminizinc issue 928). Without a
    warm start it is much slower if it may not.
    """
    flags = backend.solver.stdFlags
    free = "-f" in flags and backend.learns and not (warm_start and backend.is_chuffed)
    options: Named = {"free_search": free}
    if {"-i", "-a"} & set(flags):
        options["intermediate_solutions"] = True
    if limits.seconds is not None:
        options["time_limit"] = timedelta(seconds=min(max(limits.seconds, 0.001), LONGEST_SECONDS))
    if limits.threads is not None and "-p" in flags and not backend.found.webassembly:  # that has no threads
        options["processes"] = limits.threads
    if limits.seed is not None and "-r" in flags:
        options["random_seed"] = limits.seed
    if limits.parameters and backend.is_cp_sat:
        options["params"] = limits.parameters
    return options


def _listening(instance_class: type) -> type:
    """`minizinc.Instance` hands statistics over only together with a solution; this also reports those in between. It
    does not have MiniZinc write what models print for people: that can take as long as a solution."""

    class ListeningInstance(instance_class):
        has_output_item = False

        def _parse_stream_obj(self, obj: dict[str, object], statistics: dict[str, object]) -> tuple[object, ...]:
            parsed = super()._parse_stream_obj(obj, statistics)
            if obj["type"] == "statistics":
                self.heard(parsed[2])
            return parsed

    return ListeningInstance


def _note_statistics(statistics: Named, listener: OutputListener, outcome: Outcome) -> None:
    flatten = statistics.get("flatTime")
    if flatten is not None:
        outcome.flatten_seconds = flatten.total_seconds()
    outcome.solver_version = str(statistics.get("solverVersion", outcome.solver_version))
    outcome.claim = str(statistics.get("claim", outcome.claim))
    if "confirmedBy" in statistics:
        outcome.confirmed_by = str(statistics["confirmedBy"])
        listener.confirmed(outcome.confirmed_by)
    bound = statistics.get("objectiveBound")
    if isinstance(bound, int | float) and math.isfinite(bound):
        # Durations and sizes are integers; the bound may have passed through a double, which is exact up to 2**53 only.
        listener.bound(math.ceil(bound - max(1e-6, abs(bound) * 2**-51)))


# --- MiniZinc as a program: data files, models compiled to FlatZinc, and runs that only print -----------------


def compile_model(backend: Backend, model: Path | str, data: str, stop: Callable[[], bool] = lambda: False) -> str:
    """The FlatZinc of `model` with the `.dzn` text `data`, in the constraints that the backend's solver knows.

    Raises:
        SolverError: MiniZinc failed; the message is its own.
        StoppedError: `stop` was true.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        flat, file = Path(folder) / "instance.fzn", model_file(model, Path(folder))
        printed(backend, ["-c", "--no-output-ozn", "--output-mode", "json", "--fzn", str(flat), str(file)], data, stop)
        return flat.read_text(encoding="utf-8")


def printed(backend: Backend, arguments: list[str], data: str, stop: Callable[[], bool] = lambda: False) -> str:
    """What MiniZinc prints on stdout, called with the arguments, the backend's solver and the `.dzn` text `data`.

    Raises:
        SolverError, StoppedError: as `compile_model`.
    """
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder, backend.solver.configuration() as solver:
        data_file = Path(folder) / "instance.dzn"
        data_file.write_text(data, encoding="utf-8")
        command = [str(backend.found.minizinc.executable), "--solver", solver, *arguments, str(data_file)]
        status, output, complaints = ended(command, stop)
    if status:
        raise SolverError(f"{backend.name}: MiniZinc failed: {backend.found.real_message(complaints)}")
    return output


# --- MiniZinc data files --------------------------------------------------------------------------------------


Value = bool | int | str | Sequence[Any] | Set[Any]
"""A scalar, a set, or an array of one or two dimensions."""


class Member(str):
    """The name of a member of an enumeration; a plain text is a string."""


def dzn_text(data: Mapping[str, Value]) -> str:
    """`data` as the text of a `.dzn` file, one item a line."""
    return "".join(f"{name} = {_literal(value)};\n" for name, value in data.items())


def json_text(data: Mapping[str, Value]) -> str:
    """`data` as MiniZinc's JSON."""
    return json.dumps({name: _json(value) for name, value in data.items()}, ensure_ascii=False) + "\n"


def _json(value: Value) -> Json:
    if isinstance(value, Member):
        return {"e": str(value)}
    if isinstance(value, Set):
        return {"set": [_json(one) for one in sorted(value)]}
    return value if isinstance(value, bool | int | str) else [_json(one) for one in value]


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Member):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Set):
        return f"{{{', '.join(map(_literal, sorted(value)))}}}"
    if len(value) > 0 and not isinstance(value[0], int | str):  # rows of a matrix
        if not any(value):
            return f"array2d(1..{len(value)}, 1..0, [])"  # of which there is no literal
        return f"[|{'|'.join(', '.join(map(_literal, row)) for row in value)}|]"
    return f"[{', '.join(map(_literal, value))}]"
