"""Experiments: small TOML files that list graphs, budgets and methods.

docs/experiments.md has an example with every key. Only the name, graphs with budgets, and methods are required. Runs
are known by what they are, not by name, see `matrix.run_key`.
"""

from __future__ import annotations

import shlex
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown, some_of
from moccasin_mzn.base.files import load_text
from moccasin_mzn.bench.columns import INTEGER_BITS
from moccasin_mzn.bench.methods import Method, read_methods
from moccasin_mzn.bench.toml_tables import Fields
from moccasin_mzn.problem.budget import FORMS, Budget

NO_BUDGET = "none"
"""The budget of buffers, whose arena is minimized."""
HARD_LIMIT = 30.0
"""The default of `Experiment.hard_limit`, in seconds."""
_FEW = 3
"""The most differences that a message names."""
_KEYS = (
    "name", "title", "time_limit", "threads", "memory_limit", "hard_limit", "seeds", "budgets", "count_fixed",
    "baseline", "graphs", "methods",
)  # fmt: skip
_GRAPH_KEYS = ("path", "generate", "buffers", "label", "family", "optional", "budgets")


@dataclass(frozen=True)
class GraphSource:
    """The source of a graph, or of buffers: exactly one of `path`, `generate` and `buffers`.

    Raises:
        InputError: none of the three is given, or several are; a budget is nonsense.
    """

    label: str
    budgets: tuple[str, ...]
    """The budgets as the file has them."""
    path: str | None = None
    generate: tuple[str, ...] | None = None
    """The arguments of `moccasin-mzn generate`."""
    buffers: str | None = None
    """A CSV file as `moccasin-mzn allocate` reads it; buffers have no budgets."""
    family: str = ""
    optional: bool = False
    """True: the graph is left out where its file is missing."""

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.path, self.generate, self.buffers)) != 1:
            raise InputError("give either path or generate, or buffers")
        if self.buffers is not None:
            object.__setattr__(self, "budgets", (NO_BUDGET,))
            return
        if self.generate is not None and any(word.startswith(("-o", "--out", "--list")) for word in self.generate):
            raise InputError("generate: the graph is not to be written to a file, nor listed")
        seen: dict[Budget, str] = {}
        for text in self.budgets:
            budget = Budget.parse(text)
            if budget in seen:
                raise InputError(f"budgets: {shown(seen[budget])} and {shown(text)} are the same")
            seen[budget] = text
        if not self.budgets:
            raise InputError("budgets: there is none")


@dataclass(frozen=True)
class Experiment:
    """A matrix of graphs, their budgets, methods, and the methods' seeds.

    Raises:
        InputError: there are no graphs or no methods, a label is given twice, a method is for no graph.
    """

    name: str
    title: str
    graphs: tuple[GraphSource, ...]
    methods: tuple[Method, ...]
    hard_limit: float = HARD_LIMIT
    """Seconds beyond its time limit after which a run is killed."""
    memory_limit: int | None = None
    """The bytes that all processes of a run together may use; None: no limit."""
    count_fixed: bool = False
    """True: budgets include the graphs' fixed memory."""
    baselines: tuple[str, ...] = ()
    """Labels of the baselines: each method that differs from one of them in one option is compared with it."""

    def __post_init__(self) -> None:
        for what, parts in (("graphs", self.graphs), ("methods", self.methods)):
            if not parts:
                raise InputError(f"{what}: there are none, expected [[{what}]]")
            [(label, count)] = Counter(part.label for part in parts).most_common(1)
            if count > 1:
                raise InputError(f"{what}: two of them have the label {shown(label)}")
        for method in self.methods:
            if not any(method.fits(graph.label, graph.buffers is not None) for graph in self.graphs):
                raise InputError(f"methods: {shown(method.label)} is for none of the graphs: {shown(method.graphs)}")
        labels = [method.label for method in self.methods]
        for label in self.baselines:
            if label not in labels:
                raise InputError(f"baseline: there is no method {shown(label)}, only {some_of(labels)}")
            if label not in self.compared_with.values():
                raise InputError(f"baseline: no method differs from {shown(label)} in one option{self._nearest(label)}")

    def _nearest(self, label: str) -> str:
        """Return, for a message, in what the method nearest to a baseline differs from it; empty if absent."""
        base = next(method for method in self.methods if method.label == label)
        others = [(len(changed), one.label, changed) for one in self.methods if (changed := one.changed(base))]
        if not others or min(others)[0] > _FEW:
            return ""
        _, near, changed = min(others)
        return f": {shown(near)} differs in {', '.join(changed)}"

    @cached_property
    def compared_with(self) -> dict[str, str]:
        """The baseline of each method that has one, by labels: the first that differs from the method in exactly one
        option or limit. A baseline itself has none."""
        bases = [method for label in self.baselines for method in self.methods if method.label == label]
        found = {}
        for method in self.methods:
            near = [base.label for base in bases if len(method.changed(base)) == 1]
            if near and method.label not in self.baselines:
                found[method.label] = near[0]
        return found


def read_experiment(path: str | PathLike[str]) -> Experiment:
    """Read an experiment.

    Raises:
        InputError: the file cannot be read, is no TOML, or has a mistake; the message names the file and the key.
    """
    text = load_text(path)
    with explained(Page.EXPERIMENT):
        return _read(text, path)


def _read(text: str, path: str | PathLike[str]) -> Experiment:
    try:
        document = tomllib.loads(text)
        return _experiment(Fields(document, ""), Path(path).parent)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: no TOML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    except InputError as error:
        raise InputError(error if str(error).startswith(f"{path}:") else f"{path}: {error}") from None


def _experiment(top: Fields, folder: Path) -> Experiment:
    top.only(_KEYS)
    name, budgets = top.text("name"), top.amounts("budgets", ())
    return Experiment(
        name=name,
        title=top.text("title", name),
        graphs=tuple(_graph(fields, budgets) for fields in top.tables("graphs")),
        methods=tuple(method for fields in top.tables("methods") for method in read_methods(fields, top, folder)),
        hard_limit=top.seconds("hard_limit", HARD_LIMIT),
        memory_limit=_memory(top),
        count_fixed=top.flag("count_fixed", False),
        baselines=top.texts("baseline", ()),
    )


def _graph(fields: Fields, budgets: tuple[str, ...]) -> GraphSource:
    fields.only(_GRAPH_KEYS)
    path = fields.text("path", None)
    line = fields.text("generate", None)
    try:
        words = None if line is None else tuple(shlex.split(line))
    except ValueError as error:
        raise InputError(f"{fields.key('generate')}: {shown(line)}: {error}") from None
    buffers = fields.text("buffers", None)
    if buffers is not None and "budgets" in fields.values:
        raise InputError(f"{fields.key('budgets')}: buffers have none, their arena is minimized")
    file = path or buffers
    label = fields.text("label", (line if file is None else Path(file).stem) or "")
    budgets = fields.amounts("budgets", budgets)
    family, optional = fields.text("family", ""), fields.flag("optional", False)
    with located(fields.where):
        return GraphSource(label, budgets, path, words, buffers, family, optional)


def _memory(top: Fields) -> int | None:
    value = top.values.get("memory_limit")
    if value is None:
        return None
    with top.at("memory_limit"):
        amount = Budget.of(value).amount if isinstance(value, int | str) else None
        if not amount or amount.bit_length() > INTEGER_BITS:
            raise InputError(f"{shown(value)}, expected an amount of memory ({FORMS})")
    return amount
