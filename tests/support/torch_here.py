"""Whether PyTorch is installed: tests in folders that need it are collected only then."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def has_torch() -> bool:
    """Whether there is PyTorch 2.6 or newer."""
    try:
        return tuple(map(int, version("torch").split(".")[:2])) >= (2, 6)
    except PackageNotFoundError:
        return False


collect_ignore_glob = [] if has_torch() else ["test_*.py"]
