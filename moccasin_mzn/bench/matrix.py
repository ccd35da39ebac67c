"""The graphs and the runs of an experiment.

Graphs are read or generated, and get a digest of their content; compressed, they go to other machines with their runs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shlex
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from moccasin_mzn.api.request import AllocationRequest, Request
from moccasin_mzn.base.commands import command
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import load_text, misspelt, parse_json
from moccasin_mzn.bench.columns import Row, empty_row
from moccasin_mzn.bench.experiment import Experiment, GraphSource
from moccasin_mzn.bench.methods import Method, extension_words, for_graph, problem_words
from moccasin_mzn.formulations import models
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import graph_text, parse
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.tiling.cutting import check_operators_known
from moccasin_mzn.problem.arena import check_buffers
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.instance import Instance

Generate = Callable[[Sequence[str]], ComputationGraph]
"""A function that makes a graph of the arguments of `moccasin-mzn generate`; raises `InputError`."""


@dataclass(frozen=True, eq=False)
class BenchGraph:
    """A graph, or buffers, with its place in the experiment."""

    source: GraphSource
    graph: ComputationGraph | None
    """The graph; None for buffers."""
    digest: str
    """The digest, see `graph_digest`; for buffers that of the file."""
    shell: str
    """The argument GRAPH of `solve`, or FILE of `allocate`, for bash: to repeat a run by hand."""
    packed: bytes
    """The compressed file, which goes along with every run; see `unpacked`."""
    buffers: int | None = None
    """The number of buffers; None for a graph."""


def graph_digest(graph: ComputationGraph) -> str:
    """Return a digest of all that a solver can see of a graph, ids included, but not name, labels and provenance."""
    content = [
        graph.nodes, graph.durations, graph.sizes, sorted(graph.edges), graph.input_order(), graph.backward,
        graph.total_fixed_memory, *([] if graph.workspaces is None else [graph.workspaces]),
        *([] if graph.overwritable is None else [["in place", *graph.overwritable]]),
        *([["computed once", *graph.computed_once]] if graph.computed_once else []),
        *([] if graph.output_of is None else [["output of", *graph.output_of]]),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()[:16]


def unpacked(data: bytes) -> str:
    """Return the text of a packed graph's file."""
    return zlib.decompress(data).decode()


def parsed(text: str) -> ComputationGraph:
    """Return the graph of an unpacked file."""
    return parse(parse_json(text, "graph"))


def instance_within(graph: ComputationGraph, budget: int, most: str) -> Instance:
    """Return the instance of a run with the input order; its row has `budget_amount` and `max_computations`."""
    counts = int(most) if most.isdecimal() else most
    return replace(Instance.build(graph, 1, max_computations=counts), budget=max(0, budget))


def load_graphs(
    experiment: Experiment, home: Path, folders: Sequence[Path], generate: Generate, warn: Callable[[str], None]
) -> list[BenchGraph]:
    """Read or generate all graphs.

    Args:
        home: the folder of the experiment's file; relative paths are looked up there first.
        folders: the folders in which they are looked up next, in this order.
        warn: gets a line for each optional graph that is left out.

    Raises:
        InputError: a graph that is not optional is missing, a graph is broken or cannot be generated, or none is left.
    """
    found = []
    for source in experiment.graphs:
        if source.generate is not None:
            try:
                graph = generate(source.generate)
            except InputError as error:
                raise InputError(f"graph {source.label}: {error}") from None
            shell = f"<({command('generate', *source.generate)})"
        else:
            path = _find(source, [home, *folders])
            if path is None:
                warn(f"left out: graph {source.label}: {path_of(source)} is not at hand (see --graphs)")
                continue
            shell = shlex.quote(path_of(source))
            if source.buffers is not None:
                found.append(_read_buffers(source, path, shell))
                continue
            graph = read_graph(path)
        packed = zlib.compress(graph_text(graph).encode())
        found.append(BenchGraph(source, graph, graph_digest(graph), shell, packed))
    if not found:
        raise InputError("no graph of the experiment is at hand; name the folder that has them with --graphs")
    return found


def path_of(source: GraphSource) -> str:
    """Return the file that a graph comes from, as given; empty if it is generated."""
    return source.path or source.buffers or ""


def _read_buffers(source: GraphSource, path: Path, shell: str) -> BenchGraph:
    text = load_text(path)
    buffers = parse_buffers(text, path)
    check_buffers(buffers, 1)
    content = text.encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return BenchGraph(source, None, digest, shell, zlib.compress(content), len(buffers))


def _find(source: GraphSource, folders: Sequence[Path]) -> Path | None:
    """Return the first file that exists; None if absent and the graph is optional, else raise `InputError`."""
    found = next((path for folder in folders if (path := folder / path_of(source)).is_file()), None)
    if found is not None or source.optional:
        return found
    where = ", ".join(map(str, folders)) if not Path(path_of(source)).is_absolute() else "its folder"
    hint = next(filter(None, (misspelt(folder / path_of(source)) for folder in folders)), "")
    raise InputError(f"graph {source.label}: there is no {path_of(source)} in {where}{hint}")


# --- Runs: every graph within every budget by every method with every seed ------------------------------------


@dataclass(frozen=True)
class Run:
    """One run, with all that another machine needs to execute it."""

    row: Row
    """The row for the store, with what is known before the run."""
    method: Method
    """The method; times that were relative to the graph are numbers here."""
    count_fixed: bool
    """True: budgets include the graph's fixed memory."""
    hard_limit: float
    """Seconds after which the run is killed."""
    graph: bytes
    """The compressed file of the graph, see `BenchGraph.packed`."""

    @property
    def key(self) -> str:
        """The digest of all that defines the run, see `run_key`."""
        return self.row["key"]

    @property
    def allocates(self) -> bool:
        """True for a run of `allocate`, on buffers."""
        return self.method.allocates

    @property
    def order(self) -> str:
        """The order: "input", "topological", or "free", which is to be chosen."""
        return str(self.method.options.get("order", "input"))

    def request(self, given: ComputationGraph | str) -> Request | AllocationRequest:
        """Make the request for the graph, or for buffers, which are the text of a CSV file.

        Raises:
            InputError: see `Question.request`.
        """
        seed = self.row["seed"]
        if isinstance(given, str):
            return self.method.allocation(given, seed)
        return self.method.question(self.row["budget"], seed, self.count_fixed).request(given)

    @property
    def label(self) -> str:
        """The run in a few words."""
        seed = "" if self.row["seed"] is None else f" seed {self.row['seed']}"
        return f"{self.row['graph']} {self.row['budget']} {self.row['method']}{seed}"


def run_key(graph: BenchGraph, budget: str, method: Method, seed: int | None, experiment: Experiment) -> str:
    """Return a digest of the graph's content, the budget, the method's options and limits, and the seed.

    A user's own model counts by its text. Names, labels and the version of this program do not count: runs stay the
    same where these change, and runs that two experiments in one store share are done once.
    """
    parsed = None if method.allocates else Budget.parse(budget)
    definition = [
        graph.digest,
        parsed and [parsed.amount, str(parsed.fraction), experiment.count_fixed],
        sorted(
            (name, models.digest(Path(str(value))) if name == "model" else value)
            for name, value in method.options.items()
        ),
        [method.time_limit, method.threads, experiment.memory_limit, experiment.hard_limit],
        seed,
    ]
    return hashlib.sha256(json.dumps(definition).encode()).hexdigest()[:24]


def matrix(experiment: Experiment, graphs: Sequence[BenchGraph]) -> list[Run]:
    """List all runs in the order in which they are to be done.

    Each method runs with its first seed on all problems before any runs with its second. Within a seed the order is by
    method; with baselines it is by problem, so that a busy hour of the machine affects all methods equally.

    Raises:
        InputError: two methods give the same run; a budget leaves nothing for outputs.
    """
    runs: dict[str, Run] = {}
    for run in _runs(experiment, graphs):
        if run.key in runs:
            first, second = runs[run.key].row, run.row
            labels = [f"{row['method']} on {row['graph']}, budget {row['budget']}" for row in (first, second)]
            raise InputError(f"two runs are the same: {labels[0]}, and {labels[1]}")
        runs[run.key] = run
    return list(runs.values())


def _runs(experiment: Experiment, graphs: Sequence[BenchGraph]) -> Iterator[Run]:
    """Yield all runs; each budget of a graph is built once for each order that methods use."""
    build = cache(partial(_instance, count_fixed=experiment.count_fixed))
    problems = [(graph, budget) for graph in graphs for budget in graph.source.budgets]
    combinations = [
        (method, graph, budget)
        for method, (graph, budget) in itertools.product(experiment.methods, problems)
        if method.fits(graph.source.label, graph.graph is None)
    ]
    if experiment.baselines:
        combinations.sort(key=lambda run: problems.index(run[1:]))
    for turn in range(max(len(method.seeds) or 1 for method in experiment.methods)):
        for method, graph, budget in combinations:
            for seed in (method.seeds or (None,))[turn : turn + 1]:
                yield _run(experiment, graph, budget, method, seed, build)


def _instance(
    graph: BenchGraph, changed: ComputationGraph | None, budget: str, order: str, count_fixed: bool
) -> Instance:
    """The instance of a graph, or of what a method makes of it, if that is another one."""
    given = changed or graph.graph
    assert given is not None
    try:
        return Instance.build(given, budget, order=order, count_fixed=count_fixed)
    except InputError as error:
        raise InputError(f"graph {graph.source.label}, budget {shown(budget)}: {error}") from None


def _run(
    experiment: Experiment, graph: BenchGraph, budget: str, method: Method, seed: int | None,
    build: Callable[[BenchGraph, ComputationGraph | None, str, str], Instance],
) -> Run:  # fmt: skip
    key, order = run_key(graph, budget, method, seed, experiment), str(method.options.get("order", "input"))
    if graph.graph is None:
        words, known = extension_words(method.options), {"nodes": graph.buffers}
    else:
        try:
            whole = method.whole(graph.graph)
            if method.options.get("tile"):
                check_operators_known(whole)
        except InputError as error:
            raise InputError(f"{method.label} on graph {graph.source.label}: {error}") from None
        instance = build(graph, None if whole == graph.graph else whole, budget, order)
        known = {
            "nodes": len(graph.graph.nodes),
            "edges": len(graph.graph.edges),
            "budget_amount": instance.budget,
            "baseline_peak": instance.baseline.peak,
            "baseline_duration": instance.baseline.duration,
        }
        try:
            method = replace(method, options=for_graph(method.options, graph.graph))
            if method.memories is not None:
                problem = method.problem(graph.graph, budget, experiment.count_fixed)
                known["baseline_duration"] = problem.baseline_duration
        except InputError as error:
            raise InputError(f"{method.label} on graph {graph.source.label}, budget {shown(budget)}: {error}") from None
        words = problem_words(method.options, budget) + ["--count-fixed"] * experiment.count_fixed
    words += method.arguments(seed)
    row = _row(experiment, graph, budget, method, seed, words) | known | {"key": key}
    hard_limit = method.time_limit + experiment.hard_limit
    return Run(row, method, experiment.count_fixed, hard_limit, graph.packed)


def _row(
    experiment: Experiment, graph: BenchGraph, budget: str, method: Method, seed: int | None, words: Sequence[str]
) -> Row:
    """Make the row of a run, with all that does not depend on the graph's content."""
    return {
        **empty_row(),
        "experiment": experiment.name,
        "graph": graph.source.label,
        "family": graph.source.family or None,
        "graph_digest": graph.digest,
        "budget": budget,
        "method": method.label,
        "baseline": experiment.compared_with.get(method.label),
        **method.columns(),
        "seed": seed,
        "threads": method.threads,
        "time_limit": method.time_limit,
        "memory_limit": experiment.memory_limit,
        "command": f"{graph.shell} {shlex.join(words)}",
    }
