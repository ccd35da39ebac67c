"""Runs on dask.distributed: on this machine by default, or wherever a scheduler's workers are.

Workers offer resources, "threads" and "memory" (bytes), and every run takes its share of them. What a worker had in
hand when it was lost is done again by another. Results come back to this process, which alone writes.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias

import psutil

from moccasin_mzn.api.race.racer import usable_cores
from moccasin_mzn.base.errors import InputError, missing
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.bench.execute import RunOutcome, blocked_signals, execute
from moccasin_mzn.bench.matrix import Run

try:
    import dask
    import distributed
    from distributed import Client, Future, LocalCluster
except ImportError:
    raise missing("distributed", "bench") from None

_Future: TypeAlias = "Future[RunOutcome | None]"
ALLOWED_FAILURES = 20
"""The number of workers that may be lost with the same run before it is given up."""
CONNECT_SECONDS = 5
"""Seconds to try to connect to the scheduler of `--scheduler`."""
START_SECONDS = 120
"""Seconds that the processes of a cluster on this machine, which may be very busy, have to connect to each other."""
WORKER_SECONDS = 10
"""Seconds to wait for the first worker of a scheduler."""
START_TRIES = 3
LOOK_SECONDS = 5.0
"""Seconds between two checks whether there is any worker left."""


def run_all(
    runs: Sequence[Run], scheduler: str | None, workers: int, warn: Callable[[str], None]
) -> Generator[tuple[Run, RunOutcome | str], None, None]:
    """Execute the runs, in about their order, as many at once as threads and memory allow.

    Closing the generator stops all runs.

    Args:
        scheduler: the address of a dask scheduler; None: `workers` processes of this machine share its cores and
            memory.
        warn: gets warnings, one line each.

    Yields:
        Each run as soon as it has ended, with what came of it, or why it could not be done.

    Raises:
        InputError: the scheduler cannot be reached, or no worker of it offers what a run needs.
    """
    with _client(scheduler, workers, runs) as client:
        if scheduler is not None:
            _check_resources(client, scheduler, runs)
        done: queue.SimpleQueue[_Future] = queue.SimpleQueue()
        token = secrets.token_hex(4)  # so that nothing is taken for a run of somebody else
        waiting: dict[str, tuple[Run, _Future]] = {}  # a future that is dropped is forgotten by the scheduler
        try:
            for at, run in enumerate(runs):
                key = f"run-{run.key}-{token}"
                future = client.submit(_execute_here, run, resources=needs(run), pure=False, key=key, priority=-at)
                waiting[key] = run, future
                future.add_done_callback(done.put)
            while waiting:
                run, future = waiting.pop(str(_next(done, client, warn).key))
                yield run, _outcome(future)
        finally:
            if waiting:
                with contextlib.suppress(Exception):
                    client.cancel([future for _, future in waiting.values()], force=True)


def needs(run: Run) -> dict[str, int]:
    """Return the resources that a run takes while it runs."""
    return {"threads": run.row["threads"], "memory": run.row["memory_limit"] or 0}


def _execute_here(run: Run) -> RunOutcome | None:
    """Execute a run in a worker; None if the scheduler has dropped it, which ends the run."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def forgotten() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return execute(run, forgotten)


def _next(done: queue.SimpleQueue[_Future], client: Client, warn: Callable[[str], None]) -> _Future:
    """Return the next run that has ended, with one warning if there is no worker left."""
    warned = False
    while True:
        try:
            return done.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            if not warned and not _offers(client):
                warn("no worker is left; waiting for one (Ctrl-C stops)")
                warned = True


def _outcome(future: _Future) -> RunOutcome | str:
    """Return the outcome of a run, or why there is none."""
    try:
        return future.result() or "it was stopped"
    except distributed.KilledWorker:
        return "its workers were lost again and again"
    except (distributed.CancelledError, OSError):
        return "the scheduler is gone"
    except Exception as error:  # of the worker: its disk is full, or it has another version of this package
        return f"its worker failed: {type(error).__name__}: {' '.join(str(error).split())}"


@contextlib.contextmanager
def _client(scheduler: str | None, workers: int, runs: Sequence[Run]) -> Iterator[Client]:
    patience = START_SECONDS if scheduler is None else CONNECT_SECONDS
    settings = {
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        "distributed.comm.timeouts.connect": patience,
        "distributed.admin.large-graph-warning-threshold": "1GB",
    }
    with dask.config.set(settings), contextlib.ExitStack() as stack:
        logging.getLogger("distributed").setLevel(logging.ERROR)
        where: object = scheduler
        if scheduler is None:
            with blocked_signals():
                where = stack.enter_context(contextlib.closing(_started(_local(workers, runs))))
        try:
            client = Client(where, timeout=patience, set_as_default=False)
        except (OSError, ValueError) as error:
            line = " ".join(str(error).split())
            what = "this machine" if scheduler is None else f"--scheduler {scheduler}"
            raise InputError(f"{what}: no dask scheduler can be reached there: {line}") from None
        yield stack.enter_context(contextlib.closing(client))


def _started(settings: dict[str, object]) -> LocalCluster:
    """Start a cluster on this machine, again if a worker dies while it starts.

    Raises:
        InputError: it does not start.
    """
    for _ in range(START_TRIES):
        try:
            return LocalCluster(**settings)
        except (RuntimeError, OSError) as error:
            cause = error.__cause__ or error
    raise InputError(f"the workers on this machine do not start: {' '.join(str(cause).split())}")


def _local(workers: int, runs: Sequence[Run]) -> dict[str, object]:
    """Return the settings of workers on this machine; each can do any run, if need be with more threads than cores."""
    wanted = [needs(run) for run in runs]
    offer = {
        "threads": max(usable_cores() // workers, *(one["threads"] for one in wanted), 1),
        "memory": max(psutil.virtual_memory().total // workers, *(one["memory"] for one in wanted), 1),
    }
    return {
        "n_workers": workers,
        "threads_per_worker": offer["threads"],
        "resources": offer,
        "memory_limit": 0,  # of the worker itself: runs have limits of their own
        "preload": "moccasin_mzn.bench.execute",
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": False},
        "silence_logs": logging.ERROR,
    }


def _offers(client: Client) -> list[dict[str, float]]:
    return [worker["resources"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]


def _check_resources(client: Client, scheduler: str, runs: Sequence[Run]) -> None:
    """Check that every run can be done by some worker.

    Raises:
        InputError: one cannot; the message has the command that starts a worker which could.
    """
    with contextlib.suppress(distributed.TimeoutError):
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    offers = _offers(client)
    for run in runs:
        wanted = needs(run)
        if not any(all(offer.get(name, 0) >= amount for name, amount in wanted.items()) for offer in offers):
            amounts = " ".join(f"{name}={amount}" for name, amount in wanted.items())
            workers = count_text(len(offers), "worker")
            raise InputError(
                f"--scheduler {scheduler}: none of its {workers} offers {amounts}; start one, such as "
                f'dask worker {scheduler} --nthreads 8 --resources "threads=8 memory=64e9"'
            )
