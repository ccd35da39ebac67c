"""Model files: where ours are, what a model includes, and models of one's own, which include ours from anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from moccasin_mzn.base.files import load_text

_INCLUDE = re.compile(r'^include "(?P<file>[^"]+)";[^\n]*\n', re.MULTILINE)


def models_folder() -> Path:
    """Return the folder of the `.mzn` files: inside an installed package, or next to the package in a checkout."""
    package = Path(str(resources.files("moccasin_mzn")))
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def includes(path: Path) -> Iterator[tuple[str, Path]]:
    """The lines of a model that include a file of its folder or one of ours, each with that file.

    Other includes are of MiniZinc's library.

    Raises:
        InputError: the file cannot be read.
    """
    for found in _INCLUDE.finditer(load_text(path)):
        for folder in (path.parent, models_folder()):
            other = (folder / found["file"]).resolve()
            if other.is_file():
                yield found.group(), other
                break


def included(path: Path) -> set[Path]:
    """All files that a model includes, and those that they include, but for MiniZinc's library."""
    found: set[Path] = set()
    for _, other in includes(path):
        found |= {other, *included(other)}
    return found


def text(path: Path) -> str:
    """A model such that it can be compiled in any folder.

    Raises:
        InputError: the file cannot be read.
    """
    content = load_text(path)
    for line, other in includes(path):
        content = content.replace(line, f'include "{other}";\n')
    return content


def digest(path: Path) -> str:
    """Return a digest of a model and of the files of its own that it includes; ours are no part of it.

    Raises:
        InputError: the file cannot be read.
    """
    ours = models_folder().resolve()
    own = sorted(other for other in included(path) if ours not in other.parents)
    return hashlib.sha256("\0".join(map(load_text, [path, *own])).encode()).hexdigest()[:16]
