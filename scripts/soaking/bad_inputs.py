"""Broken files and nonsense in options: refused in one line, or answered as if nothing were wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from soaking.asking import Reply, is_reported
from soaking.questions import Problem, Question

JUNK = (
    "", " ", "-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "0x10", "٣", "½", "1.5GiBB", "2**3", "0.0", "1.0001",
    "%", "101%", "9" * 26, "true", "None", "../..", "/", "/dev/null", "no-such-file", "a,b", ",", "cp-sat,",
    "cp-sat,cp-sat", "no-such-name", "no-such-name", "gecode@9.9", "staged ", "STAGED", "\u202e", "x" * 5000, "{}",
)  # fmt: skip
OPTIONS = (
    "budget", "formulation", "strategy", "solver", "precedence", "index", "max-computations", "search", "order",
    "warm-start", "time-limit", "until-gap", "threads", "seed", "alignment", "device", "page-out-time", "objective",
    "copy-time", "slow-memory", "output", "plot", "no-such-option",
)  # fmt: skip
NAMES = ("formulation", "strategy", "solver", "precedence", "index", "search", "order", "objective", "no-such-option")
"""The options for which no-such-name is nonsense whatever the graph."""
FILES = ("", "out.json", "graph.json", "out.png", "out", "no-such-folder/out.json")
"""To write to, within the folder of the question."""
FLAGS = ("check", "addresses", "paging", "count-fixed", "two-phase", "one-phase", "json-stream")
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, 2**53, 2**63, "", "x", [], {}, [[]], {"a": 1}, float("nan"), float("inf"), "9" * 99,
)  # fmt: skip


def bad_command(rng: random.Random, problem: Problem, folder: Path) -> list[str]:
    """A command line in which something is broken, or may be."""
    options = {"budget": problem.budget, "search": rng.choice(["only", "on"]), "time-limit": "2"}
    question = Question("solve", "here", problem, options)
    words = question.arguments(folder)
    file = folder / "graph.json"
    if rng.random() < 0.5:
        file.write_bytes(_broken(rng, file.read_bytes()))
    else:
        words += _odd_options(rng, folder)
        if rng.random() < 0.2:
            words.remove("--json")
    words[0] = rng.choices(["solve", "info", "order", "frontier"], [8, 1, 1, 1])[0]
    return words


def _odd_options(rng: random.Random, folder: Path) -> list[str]:
    words = []
    for _ in range(rng.choice([1, 1, 2])):
        if rng.random() < 0.2:
            words.append(f"--{rng.choice(FLAGS)}")
        else:
            option = rng.choice(OPTIONS)
            value = "no-such-name" if option in NAMES and rng.random() < 0.5 else rng.choice(JUNK)
            value = str(folder / rng.choice(FILES)) if option in ("output", "plot") else value
            words += [f"--{option}", value]
    return words


def _broken(rng: random.Random, content: bytes) -> bytes:
    """The bytes of a graph file with something wrong."""
    style = rng.randrange(5)
    if style == 0:
        return content[: rng.randrange(len(content))]
    if style == 1:
        at = rng.randrange(len(content))
        return content[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 4))) + content[at + 1 :]
    if style == 2:
        return rng.choice([b"", b"\xff\xfe", b"[" * 20_000, b"null", b"digraph {", b"<graphml>", b'{"nodes": 3}'])
    document = json.loads(content)
    places = list(_places(document))
    owner, key = rng.choice(places)
    if style == 3 and isinstance(owner, dict):
        del owner[key]
    elif style == 3:
        owner.append(owner[key])
    else:
        owner[key] = rng.choice(VALUES)
    return json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place within a document, as its owner and its key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield value, key
        yield from _places(inner)


def is_nonsense(words: list[str]) -> bool:
    """Must the command line be refused, whatever is in its files? Without a model no solver is asked for."""
    pairs = list(zip(words, words[1:], strict=False))
    named = [name for name in NAMES if (f"--{name}", "no-such-name") in pairs]
    return "--no-such-option" in words or named not in ([], ["solver"]) or (named == ["solver"] and "only" not in words)


def flaws_of_refusal(words: list[str], reply: Reply) -> list[str]:
    """What is wrong with the reply to something that may be broken."""
    if reply.status in (0, 1) and is_nonsense(words):
        return [f"nonsense is answered with exit status {reply.status}"]
    if "Traceback (most recent call last)" in reply.errors or reply.status not in (0, 1, 2):
        return [f"exit status {reply.status}: {reply.errors[-3000:]}"]
    if reply.status == 2:
        lines = reply.errors.strip().splitlines()
        if not lines or not lines[-1].startswith("error: ") or sum(line.startswith("error: ") for line in lines) > 1:
            return [f"refused with {reply.errors[-500:]!r}, expected one line that begins with error"]
        if len(lines[-1]) > 1000 + max(map(len, words)):  # names of files are printed in full
            return [f"refused in a line of {len(lines[-1])} characters"]
        return [] if is_reported(reply) else [f"refused, but stdout has {reply.text[:80]!r}"]
    if "--json" in words and words[0] == "solve" and "--json-stream" not in words:
        try:
            reply.document()
        except ValueError as error:
            return [f"stdout is no JSON object: {error}"]
    return []
