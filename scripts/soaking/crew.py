"""Processes that ask: each takes one graph after the other, and is replaced where it dies or hangs."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from soaking.asking import HANG_SECONDS
from soaking.tidiness import Room
from soaking.trial import Finding, Tally, Trial

NEWS_SECONDS = 10.0
START_SECONDS = 60.0
"""More patience until the first question: a process has to start."""
Work = Callable[[Connection, Path, "Plan"], None]


@dataclass(frozen=True)
class Plan:
    """What to do."""

    seed: int
    """The seed of the first graph."""
    graphs: int
    jobs: int
    seconds: float | None
    """No graph is begun after so long; None: all are."""
    only: str | None
    keep: Path
    """Where findings go; made when there is one."""
    verbose: bool = False
    """Every question is printed."""
    patience: float = 1.5 * HANG_SECONDS
    """Seconds for one question; a process that takes longer is taken to hang."""


@dataclass
class Worker:
    """One process, and what it is about."""

    process: Any
    pipe: Connection
    folder: Path
    seed: int = -1
    command: str = ""
    since: float = 0.0
    """When it began with that, by `time.monotonic()`."""


def soak(plan: Plan, work: Work | None = None) -> tuple[Tally, float]:
    """Run all graphs; the tally, and the seconds it took. An interrupt ends the soak, not this function.

    Args:
        work: what the processes do; None: `ask_all`.
    """
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        crew = _Crew(plan, Path(folder), begin, work or ask_all)
        try:
            crew.run()
        except KeyboardInterrupt:
            sys.stderr.write("stopped by the user\n")
        finally:
            crew.dismiss()
    return crew.tally, time.monotonic() - begin


class _Crew:
    def __init__(self, plan: Plan, folder: Path, begin: float, work: Work) -> None:
        self.plan, self.folder, self.begin, self.work = plan, folder, begin, work
        self.tally = Tally()
        self.seeds = self._seeds()
        self.hired = 0
        self.workers: list[Worker] = []
        self.reported = begin

    def _seeds(self) -> Iterator[int]:
        for seed in range(self.plan.seed, self.plan.seed + self.plan.graphs):
            if self.plan.seconds is not None and time.monotonic() - self.begin > self.plan.seconds:
                return
            yield seed

    def run(self) -> None:
        """Until all graphs are done."""
        for _ in range(self.plan.jobs):
            self._hire()
        while self.workers:
            ready = wait([worker.pipe for worker in self.workers], timeout=1.0)
            for worker in list(self.workers):
                if worker.pipe in ready:
                    self._hear(worker)
                elif worker.seed >= 0 and time.monotonic() - worker.since > self.plan.patience:
                    self._lost(worker, f"no end within {self.plan.patience:.0f} s")
            self._announce()

    def dismiss(self) -> None:
        """End all processes."""
        for worker in self.workers:
            _end(worker)
        self.workers = []

    def _hire(self) -> None:
        seed = next(self.seeds, None)
        if seed is None:
            return
        folder = self.folder / str(self.hired)
        folder.mkdir()
        self.hired += 1
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=self.work, args=(theirs, folder, self.plan))
        process.start()
        theirs.close()
        worker = Worker(process, ours, folder)
        self.workers.append(worker)
        self._give(worker, seed)

    def _give(self, worker: Worker, seed: int | None) -> None:
        worker.seed, worker.command = -1 if seed is None else seed, ""
        worker.since = time.monotonic() + START_SECONDS
        worker.pipe.send(seed)

    def _hear(self, worker: Worker) -> None:
        """A message: the question that is asked now, or a graph's tally."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            if worker.seed < 0:
                _end(worker)
                self.workers.remove(worker)
            else:
                worker.process.join(5)
                self._lost(worker, f"the process died with {worker.process.exitcode}")
            return
        if isinstance(message, str):
            worker.command, worker.since = message, time.monotonic()
        else:
            self.tally.add(message)
            for finding in message.findings:
                sys.stderr.write(f"FINDING seed {finding.seed}: {finding.message[:500]}\n")
            self._give(worker, next(self.seeds, None))

    def _lost(self, worker: Worker, how: str) -> None:
        """A process died or hangs: a finding, and another process takes its place."""
        _end(worker)
        self.workers.remove(worker)
        kept = self.plan.keep / f"{worker.seed}-lost"
        kept.mkdir(parents=True, exist_ok=True)
        for path in (*(worker.folder / "files").glob("*"), worker.folder / "faults.txt"):
            if path.is_file():
                (kept / path.name).write_bytes(path.read_bytes())
        command = worker.command.replace(str(worker.folder / "files"), str(kept))
        (kept / "finding.txt").write_text(f"{how}\n\nmoccasin-mzn {command}\n", encoding="utf-8")
        self.tally.findings.append(Finding(worker.seed, how, command, str(kept)))
        self.tally.counts["graphs"] += 1
        sys.stderr.write(f"FINDING seed {worker.seed}: {how}: {command}\n")
        self._hire()

    def _announce(self) -> None:
        now = time.monotonic()
        if now - self.reported >= NEWS_SECONDS:
            self.reported = now
            counts = self.tally.counts
            sys.stderr.write(
                f"{now - self.begin:7.0f} s  {counts['graphs']} graphs  {counts['solves']} questions  "
                f"{counts['bad inputs']} bad inputs  {len(self.tally.findings)} findings\n"
            )


def _end(worker: Worker) -> None:
    """End a process and all that it started."""
    try:
        started = psutil.Process(worker.process.pid).children(recursive=True)
    except psutil.Error:
        started = []
    worker.process.kill()
    for process in started:
        try:
            process.kill()
        except psutil.Error:
            pass
    worker.process.join(10)
    worker.pipe.close()


def ask_all(pipe: Connection, folder: Path, plan: Plan) -> None:
    """What a process does: graphs by their seeds, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from moccasin_mzn.solvers.minizinc.solvers import known_solvers

    with (folder / "faults.txt").open("w") as faults:
        faulthandler.enable(faults)
        room, solvers = Room(folder), known_solvers()
        report = (lambda line: print(line, file=sys.__stdout__, flush=True)) if plan.verbose else (lambda line: None)
        while (seed := pipe.recv()) is not None:
            pipe.send(Trial(seed, room, plan.keep, solvers, plan.only, announce=pipe.send, report=report).run())
