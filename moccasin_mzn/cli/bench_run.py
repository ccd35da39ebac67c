"""The command `bench run`: the runs of an experiment that a store does not have yet."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.commands import command as command_text
from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.base.terminal import own_stderr
from moccasin_mzn.cli.common import EXIT_FOUND, EXIT_NONE
from moccasin_mzn.cli.options import command

if TYPE_CHECKING:
    from moccasin_mzn.bench.columns import Row
    from moccasin_mzn.bench.execute import RunOutcome
    from moccasin_mzn.bench.matrix import BenchGraph, Run
    from moccasin_mzn.bench.store import Store
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.heuristics.compiled_searches import CompiledSearch

_COMPILING_SECONDS = 40
"""Time that compiling a search takes, in seconds, measured on two cores of 2019."""
_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s/]+:[0-9]{1,5}", re.ASCII)


@command()
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT.toml")
@click.option("--store", "--output", "-o", "store", type=click.Path(path_type=Path), metavar="FILE.sqlite",
              help="The results; runs that it has are not repeated.  [default: EXPERIMENT.sqlite in the current "
                   "folder]")  # fmt: skip
@click.option("--graphs", "folders", type=click.Path(path_type=Path), multiple=True, metavar="FOLDER",
              help="Another folder with graphs of the experiment; may be given several times.")  # fmt: skip
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Address of a dask scheduler, whose workers do the runs.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
              help="Without a scheduler: number of processes that share cores and memory of this machine.")  # fmt: skip
@click.option("--only", "patterns", multiple=True, metavar="PATTERN",
              help="Only the runs whose graph, budget, method, or whole label as shown by --list matches, such as "
                   "`RL G1 0.8 *`; may be given several times.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List the runs and which of them are done, without running any.")
def run(
    experiment: Path, store: Path | None, folders: tuple[Path, ...], scheduler: str | None, workers: int,
    patterns: tuple[str, ...], listing: bool,
) -> int:  # fmt: skip
    """Run EXPERIMENT, except for the runs that the store already has.

    Graphs, methods and solvers are checked before the first run, and problems that are proven infeasible at once are
    named. Every run is a process of its own, and its result is stored as soon as it ends. After an interruption of any
    kind the same command continues.
    """
    from moccasin_mzn.bench.preview import chosen

    if scheduler is not None and workers != 1:
        raise InputError("--workers is for this machine; a scheduler has workers of its own")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise InputError(f"--scheduler {shown(scheduler)}: expected an address such as tcp://127.0.0.1:8786")
    path = store if store is not None else Path(f"{experiment.stem}.sqlite")
    graphs, runs = planned(experiment, folders)
    runs = chosen(runs, patterns)
    return _list(runs, path) if listing else run_missing(graphs, runs, path, scheduler, workers)


def planned(experiment: Path, folders: Sequence[Path]) -> tuple[list[BenchGraph], list[Run]]:
    """Return the graphs of an experiment, which are looked up in `folders` too, and its runs."""
    from moccasin_mzn.bench.experiment import read_experiment
    from moccasin_mzn.bench.matrix import load_graphs, matrix

    description = read_experiment(experiment)
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--graphs {folder}: there is no such folder")
    with located(experiment):
        graphs = load_graphs(description, experiment.parent, folders, generated, _note)
        return graphs, matrix(description, graphs)


def run_missing(
    graphs: Sequence[BenchGraph], runs: Sequence[Run], path: Path, scheduler: str | None = None, workers: int = 1
) -> int:
    """Execute the runs of one experiment that a store does not have, and return the exit status.

    Raises:
        InputError: a solver of theirs is not on this machine; then none is executed. Those of a scheduler's workers are
            not known here.
    """
    from moccasin_mzn.bench.preview import check_can_run, infeasible
    from moccasin_mzn.bench.store import Store, locked

    done = _done(path)
    missing = [run for run in runs if run.key not in done]
    if scheduler is None:
        check_can_run(missing)
    for line in infeasible(graphs, missing):
        _note(line)
    with locked(path), Store.create(path) as opened:
        opened.add_graphs({one.row["graph_digest"]: one.graph for one in runs})
        replaced = opened.adopt([one.row for one in runs])
        if replaced:
            name = f"{runs[0].row['experiment']} (before)"
            _note(
                f"{path}: {count_text(replaced, 'run')} with other options or limits kept as experiment {shown(name)}"
            )
        return _run_missing(runs, opened, scheduler, workers)


def _note(line: str) -> None:
    click.echo(line, err=True)


def generated(words: Sequence[str]) -> ComputationGraph:
    """Return the graph that `generate` makes of these arguments."""
    import io

    from moccasin_mzn.cli.graphs import generate
    from moccasin_mzn.graphs.formats import read_graph

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.json")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                generate.main([*words, "--output", str(path)], prog_name="generate", standalone_mode=False)
        except click.ClickException as error:
            raise InputError(f"generate {' '.join(words)}: {error.format_message()}") from None
        except InputError as error:
            raise InputError(f"generate {' '.join(words)}: {error}") from None
        if not path.is_file():
            raise InputError(f"generate {' '.join(words)}: this makes no graph")
        return read_graph(path)


def _list(runs: Sequence[Run], path: Path) -> int:
    done = _done(path)
    for run in runs:
        click.echo(f"{'done' if run.key in done else '-':<5} {run.label}: {_name(run)} {run.row['command']}")
    missing = [run for run in runs if run.key not in done]
    others = f"; the others take {_at_most(missing)}" if missing else ""
    click.echo(f"{count_text(len(runs), 'run')}, {len(runs) - len(missing)} done{others}")
    return EXIT_FOUND


def _done(path: Path) -> Container[str]:
    """Return the keys of the runs in a store; none if there is no store yet."""
    from moccasin_mzn.bench.store import Store

    if not path.is_file() or path.stat().st_size == 0:
        return ()
    with Store.open(path) as store:
        return store.keys()


def _name(run: Run) -> str:
    return "allocate" if run.allocates else "solve"


def _at_most(runs: Sequence[Run]) -> str:
    from moccasin_mzn.api.race.racer import usable_cores

    cores = usable_cores()
    limits = [run.row["time_limit"] * min(run.row["threads"], cores) / cores for run in runs]
    compiling = _COMPILING_SECONDS * len(_to_compile(runs))
    once = f", and up to about {_duration(compiling)} of compiling, once" if compiling else ""
    return f"at most about {_duration(sum(limits))} on the {count_text(cores, 'core')} of this machine{once}"


def _to_compile(runs: Iterable[Run]) -> list[CompiledSearch]:
    """Return the searches that the runs need and that no earlier process has compiled and kept."""
    from moccasin_mzn.heuristics.compiled_searches import is_kept

    methods = {run.row["method"]: run.method for run in runs}
    needed = dict.fromkeys(search for method in methods.values() for search in method.compiled())
    return [search for search in needed if not is_kept(search)]


def _run_missing(runs: Sequence[Run], store: Store, scheduler: str | None, workers: int) -> int:
    """Execute what the store does not have, print a line for each run as it ends, and return the exit status."""
    done = store.keys()
    missing = [run for run in runs if run.key not in done]
    if len(missing) < len(runs):
        click.echo(f"{store.path}: {len(runs) - len(missing)} of {count_text(len(runs), 'run')} done already")
    progress = _Progress(store, len(runs), missing)
    if missing:
        from moccasin_mzn.bench.execute import blocked_signals

        try:
            if scheduler is None:
                click.echo(f"{count_text(len(missing), 'run')} to do, {_at_most(missing)}")
            with blocked_signals():  # libraries that load may swallow an interrupt
                import numba  # noqa: F401

                from moccasin_mzn.bench.cluster import run_all
                from moccasin_mzn.heuristics.compiled_searches import ready
            if scheduler is None:
                ready(*_to_compile(missing))  # once, not in all runs at the same time
            with (
                stopped_by_signals(), own_stderr(),  # an interrupt has dask's workers print where they were
                contextlib.closing(run_all(missing, scheduler, workers, _note)) as ended,
            ):  # fmt: skip
                for one, outcome in ended:
                    progress.take(one, outcome)
        except KeyboardInterrupt:
            click.echo(
                f"stopped: {progress.done} of {count_text(len(runs), 'run')} done; the same command goes on", err=True
            )
            return EXIT_NONE
    if progress.done < len(runs):
        click.echo(
            f"{progress.done} of {count_text(len(runs), 'run')} done; the same command tries the others again", err=True
        )
        return EXIT_NONE
    _conclude(runs, store)
    return EXIT_FOUND


def _conclude(runs: Sequence[Run], store: Store) -> None:
    """Print the outcomes of all runs, and the command that makes a report of them."""
    from moccasin_mzn.bench.columns import STATUSES

    rows = store.rows()
    name = runs[0].row["experiment"]
    keys = {run.key for run in runs}
    counts = Counter(row["status"] for row in rows if row["experiment"] == name and row["key"] in keys)
    outcomes = ", ".join(f"{counts[status]} {status}" for status in STATUSES if status in counts)
    several = len({row["experiment"] for row in rows}) > 1
    choice = ("--experiment", name) if several else ()
    click.echo(f"{store.path}: {len(runs)} of {count_text(len(runs), 'run')} done: {outcomes}")
    click.echo(f"next: {command_text('bench', 'report', store.path, *choice)}")


class _Progress:
    """Writes results into the store and prints a line for each."""

    def __init__(self, store: Store, total: int, missing: Sequence[Run]) -> None:
        self.store, self.total, self.done = store, total, total - len(missing)
        self.ended, self.waiting = 0.0, sum(map(_effort, missing))
        self.begin = time.monotonic()

    def take(self, run: Run, outcome: RunOutcome | str) -> None:
        """Store and print the outcome of a run, or print why it could not be done."""
        if isinstance(outcome, str):
            _note(f"not done: {run.label}: {outcome}")
            return
        self.store.add(outcome.row, outcome.trace)
        self.done += 1
        self.ended += _effort(run)
        self.waiting -= _effort(run)
        rest = (time.monotonic() - self.begin) / self.ended * self.waiting
        left = f", about {_duration(rest)} left" if self.done < self.total else ""
        click.echo(f"{self.done}/{self.total}  {run.label}: {_outcome_text(outcome.row)}{left}")


def _effort(run: Run) -> float:
    """Return the core seconds that a run may take."""
    return run.row["time_limit"] * run.row["threads"]


def _outcome_text(row: Row) -> str:
    words = [row["status"]]
    if row["valid"]:
        words.append(f"arena {row['arena']:,}" if row["tdi_percent"] is None else f"+{row['tdi_percent']:.3f} %")
        if row["gap_percent"]:
            words.append(f"gap {row['gap_percent']:.3f} %")
    elif row["status"] in ("error", "crashed", "not-applicable"):
        words.append(f"({row['reason']})")
    return " ".join([*words, f"in {row['seconds']:.1f} s"])


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
