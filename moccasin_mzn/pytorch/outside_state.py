"""All that a step can read or change besides its arguments, parameters and buffers, and what a plan makes of it.

The table of docs/training.md is this list; a test compares both. "compared" is before each step, another value is
refused by its name; "refused" is when the plan is made, with the line and the module; "followed" is what the operators
of a plan look at themselves, as those of the eager step do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REPLAYED: Final = "replayed"
COMPARED: Final = "compared"
FOLLOWED: Final = "followed"
REFUSED: Final = "refused"
NOT_COMPARED: Final = "not compared"


@dataclass(frozen=True)
class State:
    """A kind of state."""

    what: str
    treatment: str
    how: str
    """How that is done, and its limits."""
    code: str
    """The module that does it; empty: none."""


STATES: Final = (
    State(
        "numbers drawn from PyTorch's default generators",
        REPLAYED,
        "from the state at the call, in the traced order; what is recomputed draws the same numbers again",
        "devices",
    ),
    State(
        "the random state, set: `manual_seed`, `seed`, `set_rng_state`, `fork_rng`, methods of generators, of CUDA; "
        "checkpoints of your own that restore it",
        REFUSED,
        "accepted if a state is only put back and nothing in the step draws; `torch.utils.checkpoint` is accepted",
        "random_state",
    ),
    State("the random state, read", COMPARED, "`initial_seed`; refused if a state is computed with", "random_state"),
    State("generators of the network's own; Python's `random`, numpy's", REFUSED, "if they are drawn from", "devices"),
    State(
        "attributes of modules, of the loss, and of objects that are arguments",
        COMPARED,
        "those that were read, also missing ones; changed by the step itself: refused",
        "attributes",
    ),
    State(
        "dictionaries, lists, tuples, deques, sets, objects, slots, namespaces, weak references, context variables, "
        "at any depth",
        COMPARED,
        "attributes of objects that were read; of a dictionary that is read by constant keys only these, otherwise all "
        "entries; of a collection with more than 1,000 entries its length; 20,000 values in total, what is read beyond "
        "is not compared, and a note is logged",
        "watching",
    ),
    State(
        "attributes of classes, functions and Python modules, default arguments, arguments of `partial`, `sys.argv`",
        COMPARED,
        "those whose names stand in code that ran, of your own files; classes of installed packages, too",
        "watching",
    ),
    State(
        "global variables, variables of closures",
        COMPARED,
        "of functions in your own files; of packages that have modules of the network plain values; none under a "
        "profiler such as `cProfile`",
        "reads",
    ),
    State("variables of the environment", COMPARED, "those that your code or such packages read", "reads"),
    State(
        "arrays and numbers of numpy",
        COMPARED,
        "by their bytes; of an array of more than 64 KiB shape and type",
        "watching",
    ),
    State(
        "tensors in attributes, collections, variables",
        COMPARED,
        "which tensor it is (an equal one is accepted), its shape, type and `requires_grad`; values are followed, and "
        "compared where Python reads them",
        "watching",
    ),
    State(
        "tensors that change in place between forward and backward pass",
        COMPARED,
        "in the backward pass, all that it reads: versions, and whether `.data` is another memory",
        "runtime",
    ),
    State(
        "`.data` or `.numpy()` written in place (`t.data.mul_(2)`) between both passes",
        NOT_COMPARED,
        "no version counts it",
        "",
    ),
    State("submodules, their mode, their hooks, their `forward`", COMPARED, "which they are", "attributes"),
    State(
        "hooks of all modules (`register_module_forward_hook`)",
        REFUSED,
        "when the plan is made, and at each call",
        "settings",
    ),
    State("autocast and its cache, default dtype and device", COMPARED, "at each call", "settings"),
    State("grad mode", FOLLOWED, "without gradients the network itself runs", "runtime"),
    State("deterministic algorithms, backends of attention", COMPARED, "at each call", "settings"),
    State(
        "`allow_tf32`, oneDNN, cuDNN, threads",
        FOLLOWED,
        "the operators look at them; `torch.get_num_threads()` in your code is compared",
        "settings",
    ),
    State(
        "hooks for saved tensors (`saved_tensors_hooks`)",
        REFUSED,
        "when the plan is made, and at each call; those of PyTorch, such as `save_on_cpu`, are accepted around a call",
        "settings",
    ),
    State(
        "modes of PyTorch that see operators, anomaly detection", NOT_COMPARED, "they see the operators of the plan", ""
    ),
    State(
        "what the step itself changes of all this: variables, entries, attributes of objects, classes and functions; "
        "counters, lists that grow",
        REFUSED,
        "when the plan is made, and put back; accepted are caches that the first run fills, and tensors and objects "
        "that are written in each step and were not read before",
        "writes",
    ),
    State(
        "results in caches of functions (`functools.cache`), objects of C without attributes, what is found by "
        "`sys.modules`, files, the clock",
        NOT_COMPARED,
        "if operators or numbers differ from run to run: refused when the plan is made",
        "repetition",
    ),
)  # fmt: skip


def table() -> str:
    """The list as a table of Markdown."""
    rows = [f"| {each.what} | {each.treatment} | {each.how} |" for each in STATES]
    return "\n".join(("| what | a plan | how |", "| --- | --- | --- |", *rows))
