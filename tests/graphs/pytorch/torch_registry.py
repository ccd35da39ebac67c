"""Factories of tests, found by the importer under a name as any other module's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

_numbers = itertools.count()


def registered(factory: Callable[[], Any]) -> str:
    """A spec, `torch_registry:...`, under which the importer finds this factory."""
    name = f"factory_{next(_numbers)}"
    globals()[name] = factory
    return f"{__name__}:{name}"
