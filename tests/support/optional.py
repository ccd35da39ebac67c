"""Libraries that only `make test-torch` and `make test-deploy` install: without them, tests are not collected."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(package: str, *least: int) -> bool:
    """Whether a package is there, in this version or a newer one."""
    try:
        return tuple(map(int, version(package).split(".")[: len(least)])) >= least
    except PackageNotFoundError:
        return False


TORCH = installed("torch", 2, 6)
LITERT = installed("ai-edge-litert")
WITH_TORCH = [] if TORCH else ["test_*.py"]
WITH_LITERT = (
    []
    if LITERT
    else [
        "test_c_[!hn]*.py",
        "test_c_networks.py",
        "test_deployed_files.py",
        "test_operators_kept.py",
        "test_tflite*.py",
    ]
)
"""What is not collected in a folder."""
