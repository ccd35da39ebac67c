"""How a file says that it is a plan for runtimes, and of which version."""

from __future__ import annotations

from typing import Any

from moccasin_mzn.errors import InputError, shown

FORMAT, VERSION = "moccasin_mzn plan", 1


def is_versioned(document: Any) -> bool:
    """Does a JSON document say that it is a plan for runtimes? Older ones, which say nothing, still read as plans."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def check_version(document: Any) -> None:
    """Refuse a plan of a version that is not known; what is no such plan is passed over.

    Raises:
        InputError: it is one.
    """
    if not is_versioned(document):
        return
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise InputError(f"plan of version {shown(version)}, this program reads {VERSION}")
