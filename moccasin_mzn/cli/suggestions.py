"""What people may have meant by an option or a command that does not exist: synonyms first, then similar letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from moccasin_mzn.base.commands import command
from moccasin_mzn.base.formatting import closest

SYNONYMS = (
    ("time-limit", "timeout", "time-out", "timelimit", "time", "limit", "max-time", "seconds", "t"),
    ("threads", "workers", "jobs", "parallel", "processes", "cores", "cpus", "num-threads", "num-workers", "j", "p"),
    ("budget", "capacity", "memory", "mem", "memory-limit", "memory-budget", "max-memory", "limit-memory", "m", "b"),
    ("output", "out", "outfile", "out-file", "output-file", "output-to-file", "save", "write", "dest"),
    ("until-gap", "gap", "mip-gap", "mipgap", "rel-gap", "relative-gap", "optimality-gap", "tolerance"),
    ("iterations", "max-iterations", "max-iter", "iters"),
    ("seed", "random-seed", "rng-seed", "r"),
    ("solver", "backend", "engine"),
    ("warm-start", "start", "init", "initial", "initial-solution", "mip-start", "mipstart"),
    ("max-computations", "max-recomputations", "recomputations", "max-recompute"),
    ("check", "verify", "validate"),
    ("plot", "draw", "picture", "figure", "image", "svg", "visualize"),
    ("input", "inputs", "shape", "input-shape", "example-input"),
    ("batch", "batch-size"),
    ("nodes", "num-nodes", "size"),
    ("training", "train"),
    ("evaluation", "eval"),
    ("paging", "offload", "offloading", "swap", "swapping", "spill"),
    ("alignment", "align"),
    ("strategy", "heuristic", "algorithm", "method"),
    ("only", "filter", "select", "k"),
    ("loss", "criterion", "loss-fn"),
    ("optimizer", "optim"),
    ("list", "dry-run"),
)
"""Options by their meaning: the first ones are those of our commands, the others what users of other tools type."""
COMMANDS = {
    "solve": ("optimize", "optimise", "optimizer", "schedule", "minimize", "plan"),
    "frontier": ("pareto", "sweep", "tradeoff", "trade-off", "curve"),
    "validate": ("verify", "check", "judge"),
    "plot": ("draw", "visualize", "visualise", "show", "picture"),
    "bench run": ("benchmark", "experiment"),
    "run torch": ("train", "pytorch"),
    "list": ("solvers", "methods", "strategies", "formulations"),
    "info": ("stats", "describe", "inspect", "summary", "features"),
    "order": ("sort", "toposort", "topological"),
    "allocate": ("pack", "place", "offsets"),
    "export": ("dzn", "flatzinc", "fzn", "mps", "lp"),
    "reduce": ("fuse", "simplify"),
    "--help": ("help",),
    "--version": ("version",),
}
"""Commands, and what users of other tools type for them."""


def meant_option(name: str, known: Iterable[str]) -> str:
    """Return the option of a command that an unknown one may stand for; empty if absent.

    A word that has a synonym is never taken for a misspelt other option.

    Args:
        name: as typed, such as "--timeout".
        known: all options of the command, such as "--time-limit".
    """
    plain = name.lstrip("-").replace("_", "-").casefold()
    long = {option.removeprefix("--"): option for option in known if option.startswith("--")}
    if plain in long:
        return long[plain]
    for words in SYNONYMS:
        if plain in words:
            return next((long[word] for word in words if word in long), "")
    best = closest(plain, long)
    return long.get(best, "")


def meant_command(name: str, context: click.Context) -> str:
    """Return the command line that an unknown command may stand for; empty if absent.

    Args:
        context: that of the group in which it was typed.
    """
    root = context.find_root().command
    assert isinstance(root, click.Group) and isinstance(context.command, click.Group)
    paths = list(_paths(root))
    here, near = _words_of(context), closest(name, context.command.commands)
    found = [tuple(true.split()) for true, others in COMMANDS.items() if not here and name.casefold() in others]
    found = found or ([(*here, near)] if near else [])
    found = found or [path for path in paths if path[-1] == name]
    found = found or _networks(name, here)
    if not found and (best := closest(name, [path[-1] for path in paths])):
        found = [path for path in paths if path[-1] == best]
    if not found and not here and Path(name).is_file():
        found = [("solve", name)]
    return " or ".join(command(*words) for words in found)


def _words_of(context: click.Context) -> tuple[str, ...]:
    """Return the words of a group, without the program's name."""
    words: list[str] = []
    at: click.Context | None = context
    while at is not None and at.parent is not None:
        words.insert(0, at.info_name or "")
        at = at.parent
    return tuple(words)


def _paths(group: click.Group, words: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of all commands."""
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from _paths(one, (*words, name))
        yield (*words, name)


def _networks(name: str, here: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the command that generates the network of this or a similar name, for `generate NAME` and NAME alone."""
    if here not in ((), ("generate",)):
        return []
    from moccasin_mzn.graphs.generators.catalogue import NETWORKS

    best = closest(name, NETWORKS)
    return [("generate", "network", best)] if best else []
