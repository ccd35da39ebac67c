"""Schedules of another kind than was asked for: kept in the user's cache, so that the command offered starts from one.

`solve` writes no file that it was not asked to write, and never passes the answer to another problem as that to the one
that was posed. What it has found all the same is not lost: the latest `MOST` such schedules are in `folder()`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.environment import user_cache
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.cli.invocation import with_changes
from moccasin_mzn.search.options import own_options
from moccasin_mzn.search.result import FOUND

if TYPE_CHECKING:
    from moccasin_mzn.search.result import Help, Result

MOST = 20
"""How many schedules are kept, the latest ones."""


def folder() -> Path:
    """Return the folder of kept schedules, in the user's cache.

    Raises:
        OSError: the user has no home folder.
    """
    return user_cache() / "schedules"


def offer(result: Result) -> str:
    """Keep a schedule of another kind, if one was found, and return the command that starts from it; else "".

    The command is the one being executed, with the options that allow the schedule."""
    helps = result.shortfall.helps if result.shortfall is not None and not result.valid else ()
    found = next((one for one in helps if one.outcome == FOUND and one.sequence is not None), None)
    if found is None or " FILE " in f" {found.option} ":
        return ""
    path = _keep(found, result)
    words = found.option if path is None else f"{found.option} --warm-start {shlex.quote(str(path))}"
    if "--order" not in found.option:
        return with_changes(words)
    several = {"solver"} if "," in result.solver else set()  # they race in a given order only
    return with_changes(words, without={"formulation", *own_options(), *several})


def _keep(found: Help, result: Result) -> Path | None:
    """Write a schedule into the cache; None: it cannot be written there."""
    from moccasin_mzn.base.files import replace_file

    assert found.sequence is not None
    graph = result.instance.graph
    text = json.dumps([graph.nodes[v] for v in found.sequence]) + "\n"
    try:
        path = folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except (InputError, OSError):
        return None
    with contextlib.suppress(OSError):
        for old in sorted(path.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)[:-MOST]:
            old.unlink()
    return path
