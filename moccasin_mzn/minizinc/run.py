"""One run of a model: improving solutions as they come, and how it ended."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.minizinc.solvers import Backend

GRACE_SECONDS = 10
"""How long after its time limit MiniZinc may take to end before it is stopped from here."""


class SolverError(InputError):
    """MiniZinc or the solver failed; the message is its own first line."""


@dataclass(frozen=True)
class Limits:
    """Resources of a run. None: no limit, the solver's own number of threads, the solver's own seed."""

    seconds: float | None = None
    threads: int | None = None
    seed: int | None = None


@dataclass
class Outcome:
    """How a run ended."""

    status: str = "unknown"
    """"optimal" (proven), "feasible", "infeasible" (proven) or "unknown"."""
    bound: int | None = None
    """Best bound the solver reported on the objective of the model; None if it reports none."""
    interrupted: bool = False
    """True if the user stopped the run."""
    flatten_seconds: float = 0.0
    """Time MiniZinc took to compile the model."""
    seconds: float = 0.0
    """Time of the whole run."""
    statistics: dict[str, Any] = field(default_factory=dict)
    """All statistics by MiniZinc's names."""


@dataclass(frozen=True)
class Listener:
    """What is called while a run goes on."""

    solution: Callable[[Any], None]
    """Gets the arrays of every improving solution, as attributes."""
    bound: Callable[[int], None]
    """Gets the bound on the objective, whenever it is reported."""


def run_model(backend: Backend, model: Path, data: str, limits: Limits, listener: Listener) -> Outcome:
    """Compile `model` with the `.dzn` text `data` and solve it.

    An interrupt from the keyboard stops the run and is reported in the outcome, not raised.

    Raises:
        SolverError: MiniZinc or the solver failed.
    """
    outcome = Outcome()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moccasin-") as folder:
        data_file = Path(folder) / "instance.dzn"
        data_file.write_text(data, encoding="utf-8")
        try:
            asyncio.run(_stream(backend, [model, data_file], limits, listener, outcome))
        except KeyboardInterrupt:
            outcome.interrupted = True
    outcome.seconds = time.monotonic() - begin
    return outcome


async def _stream(backend: Backend, files: list[Path], limits: Limits, listener: Listener, outcome: Outcome) -> None:
    import minizinc

    instance = _listening(minizinc.Instance)(backend.solver, None, backend.driver)
    instance.heard = lambda statistics: _note_statistics(statistics, listener, outcome)
    for file in files:
        instance.add_file(file, parse_data=False)
    patience = None if limits.seconds is None else limits.seconds + GRACE_SECONDS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", minizinc.error.MiniZincWarning)
            async with asyncio.timeout(patience):
                async for result in instance.solutions(**_options(backend, limits)):
                    if result.solution is not None:
                        outcome.status = "feasible"
                        listener.solution(result.solution)
                    _note_status(result.status, outcome)
    except TimeoutError:
        pass  # what was found until then stands
    except minizinc.error.MiniZincError as error:
        raise SolverError(f"{backend.name}: {_first_line(error)}") from None


def _options(backend: Backend, limits: Limits) -> dict[str, Any]:
    """Flags, as far as the solver has them."""
    flags = backend.solver.stdFlags
    options: dict[str, Any] = {"intermediate_solutions": True, "free_search": "-f" in flags}
    if limits.seconds is not None:
        options["time_limit"] = timedelta(seconds=max(limits.seconds, 0.001))
    if limits.threads is not None and "-p" in flags:
        options["processes"] = limits.threads
    if limits.seed is not None and "-r" in flags:
        options["random_seed"] = limits.seed
    return options


def _listening(instance_class: type) -> type:
    """`minizinc.Instance` hands statistics over only together with a solution; this also tells of those in between."""

    class ListeningInstance(instance_class):
        def _parse_stream_obj(self, obj, statistics):
            parsed = super()._parse_stream_obj(obj, statistics)
            if obj["type"] == "statistics":
                self.heard(parsed[2])
            return parsed

    return ListeningInstance


def _note_statistics(statistics: dict[str, Any], listener: Listener, outcome: Outcome) -> None:
    outcome.statistics.update(statistics)
    flatten = statistics.get("flatTime")
    if flatten is not None:
        outcome.flatten_seconds = flatten.total_seconds()
    bound = statistics.get("objectiveBound")
    if isinstance(bound, int | float) and math.isfinite(bound):
        outcome.bound = math.ceil(bound - 1e-6)  # durations and sizes are integers
        listener.bound(outcome.bound)


def _note_status(status: Any, outcome: Outcome) -> None:
    import minizinc

    named = {
        minizinc.Status.OPTIMAL_SOLUTION: "optimal",
        minizinc.Status.ALL_SOLUTIONS: "optimal",
        minizinc.Status.UNSATISFIABLE: "infeasible",
    }
    outcome.status = named.get(status, outcome.status)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "MiniZinc failed without a message"
