"""A plan as constant arrays in C99, which are C++ too: what each step reads and writes, and where.

Steps and nodes count from 0. With the prefix "plan" step t of PLAN_STEPS computes plan_node[t] in the memory
plan_memory[t], or copies it from plan_source[t] if that is not -1; it writes plan_size[t] bytes at plan_offset[t], and
reads what the steps plan_read[plan_read_begin[t]] .. plan_read[plan_read_begin[t + 1] - 1] wrote, in the order of the
node's inputs. What it writes is retained until the step plan_end[t]. If nodes read several outputs as one, plan_behind
has for each of plan_read the step directly behind whose output that lies, in one piece with it, or -1. Where operations
have several outputs, plan_begin[t] is the step that makes the output of step t, t itself for all but further outputs.
Where computations take more memory, step t has plan_workspace[t] bytes at plan_workspace_offset[t] in plan_memory[t].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.problem.runtime_plan import RuntimePlan, Step

BYTES = ("byte", "unit")
"""Units of sizes that are taken for bytes."""
PREFIX = "plan"
_WIDTH = 116
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def c_header(plan: RuntimePlan, prefix: str = PREFIX) -> str:
    """The header of a plan with offsets.

    Args:
        prefix: names begin with it, those of constants with it in capitals.

    Raises:
        InputError: the plan has no offsets; its sizes are not bytes; a prefix that is no identifier.
    """
    if not plan.placed:
        raise InputError("the plan has no offsets")
    if plan.size_unit not in BYTES:
        raise InputError(f"sizes are in {shown(plan.size_unit)}, expected bytes")
    if not _IDENTIFIER.fullmatch(prefix):
        raise InputError(f"prefix {shown(prefix)}: expected letters, digits and underscores, a letter first")
    guard = f"{prefix.upper()}_H"
    return "\n".join([
        "/* A schedule with the memory of each step. Steps, nodes and memories count from 0; sizes and offsets are in",
        "   bytes. Valid C99 and C++. */", f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", "",
        *_constants(plan, prefix.upper()), "", *_arrays(plan, prefix), "", f"#endif /* {guard} */", "",
    ])  # fmt: skip


def _constants(plan: RuntimePlan, prefix: str) -> Iterator[str]:
    total = sum(_rounded(size, plan.alignment) for size in plan.arenas)
    for name, value in (
        ("GRAPH", _text(plan.name)), ("GRAPH_DIGEST", _text(plan.graph_digest)), ("STEPS", len(plan.steps)),
        ("NODES", len(_nodes(plan))), ("MEMORIES", len(plan.memories)), ("ALIGNMENT", plan.alignment),
        ("ARENA_SIZE", f"{total}{_suffix(total)} /* of all memories together, each rounded up to the alignment */"),
    ):  # fmt: skip
        yield f"#define {prefix}_{name} {value}"


def _arrays(plan: RuntimePlan, prefix: str) -> Iterator[str]:
    steps, numbers = plan.steps, _nodes(plan)
    begins = list(accumulate((len(step.reads) for step in steps), initial=0))
    reads = [r for step in steps for r in step.reads]
    yield from _array(f"{prefix}_node", [numbers[step.node] for step in steps], "the node of each step")
    yield from _array(f"{prefix}_offset", [step.offset or 0 for step in steps], "in the arena of its memory")
    yield from _array(f"{prefix}_size", [step.size for step in steps], "of what each step writes")
    yield from _array(f"{prefix}_end", [step.end for step in steps], "the last step that reads it")
    yield from _array(f"{prefix}_read_begin", begins, "where the reads of each step begin")
    yield from _array(f"{prefix}_read", reads or [0], "the steps that wrote what is read")
    if any(step.adjacent for step in steps):
        comment = "the step directly behind whose output the read one lies, in one piece with it; -1: none"
        yield from _array(f"{prefix}_behind", [_behind(step).get(r, -1) for step in steps for r in step.reads], comment)
    if any(step.begin is not None for step in steps):
        begun = [at if step.begin is None else step.begin for at, step in enumerate(steps)]
        yield from _array(f"{prefix}_begin", begun, "the step that makes it: of a further output, another one")
    if any(step.workspace for step in steps):
        yield from _array(f"{prefix}_workspace", [step.workspace for step in steps], "what each step takes besides")
        where = [step.workspace_offset or 0 for step in steps]
        yield from _array(f"{prefix}_workspace_offset", where, "where that is, in the same arena")
    yield from _array(f"{prefix}_memory", [step.memory for step in steps], "where each step writes")
    sources = [-1 if step.source is None else step.source for step in steps]
    yield from _array(f"{prefix}_source", sources, "the memory copied from; -1: computed")
    yield from _array(f"{prefix}_arena_size", plan.arenas, "of each memory")
    for name, texts in (("node_name", numbers), ("memory_name", plan.memories)):
        values = [_text(str(text)) for text in texts]
        yield from _lines(f"static const char *const {prefix}_{name}[{len(values)}]", values, "")


def _behind(step: Step) -> dict[int, int]:
    """For each step that is read in one piece with another one, directly behind which its output lies, that one."""
    return {r: before for group in step.adjacent for before, r in pairwise(group)}


def _nodes(plan: RuntimePlan) -> dict[object, int]:
    """A number for each node, in the order in which they are computed first."""
    return {node: at for at, node in enumerate(dict.fromkeys(step.node for step in plan.steps))}


def _array(name: str, values: Sequence[int], comment: str) -> Iterator[str]:
    kind = "int32_t" if min(values) < 0 else "uint32_t" if max(values) < 2**32 else "uint64_t"
    texts = [f"{value}{_suffix(value)}" for value in values]
    yield from _lines(f"static const {kind} {name}[{len(values)}]", texts, comment)


def _suffix(value: int) -> str:
    """What makes an integer that is too large for 32 bits with sign a constant of its own kind."""
    return "" if value < 2**31 else "u" if value < 2**32 else "ull"


def _lines(declared: str, values: Iterable[str], comment: str) -> Iterator[str]:
    yield f"{declared} = {{" + (f" /* {comment} */" if comment else "")
    line = "   "
    for value in values:
        if len(line) + len(value) + 2 > _WIDTH and line.strip():
            yield line
            line = "   "
        line += f" {value},"
    yield line
    yield "};"


def _text(text: str) -> str:
    """A string of C: whatever is no plain character in octal."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
