"""Certificates that are changed at random: numbers nearby, other values of the same document, entries lost or twice."""

from __future__ import annotations

import copy
import random

KEPT = "format", "version", "scope", "trusted"


def all_places(value, path=()):
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from all_places(inner, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def changed(document, rng: random.Random):
    """The same with something else in one place or two: a number nearby, another value of it, nothing, or twice."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 2])):
        paths = [path for path in all_places(document) if path[0] not in KEPT]
        about = [path for path in paths if path[0] in ("about", "memories")]
        *path, last = rng.choice(about if about and rng.random() < 0.4 else paths)
        inside, value = at(document, path), at(document, (*path, last))
        if type(value) is int and rng.random() < 0.7:
            inside[last] = rng.choice([value + 1, value - 1, 2 * value, 0, value // 2])
        elif type(value) is bool or rng.random() < 0.4:
            inside[last] = not value if type(value) is bool else copy.deepcopy(at(document, rng.choice(paths)))
        elif isinstance(inside, list):
            inside[last : last + 1] = rng.choice([[], [value, value]])
        elif isinstance(value, list):
            rng.shuffle(value)
        else:
            inside[last] = rng.choice([None, [], "infeasible", 0])
    return document
