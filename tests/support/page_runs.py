"""The shell blocks of the pages, and how they run in a folder that has what stands for a reader's own files.

A block is for a shell if it begins with a program of `PROGRAMS`; in a `console` block commands follow "$ ", and what
they print is below them, where "..." stands for anything. How it is run stands behind the language, unseen in the page:

    ```sh full                  takes about a second or more: in `make test-all`; `slow`: in `make test-slow`
    ```sh torch                 in `make test-torch`
    ```console status 1         the exit status of its last command; else all are 0
    ```sh full, with gecode     only where this program, solver or Python package is
    ```sh not run: REASON

The blocks of a page are run one after the other, in one folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from documents import PAGES, ROOT, Block, page
from page_files import FILES

from moccasin_mzn.solvers.minizinc.solvers import known_solvers

PROGRAMS = ("python", ".venv/bin/python", "minizinc", "make", "cc", "pip", "dask", "moccasin-mzn", "eval", "jq", "cat")
EXTRAS = {"dot": "pydot", "onnx": "onnx", "tflite": "ai_edge_litert", "torch": "torch"}
"""A package of each."""
LINKED = ("models", "scripts", "moccasin_mzn", "docs")
"""Folders of the checkout that commands read; `data` is copied, as some write beside what they read."""
_COMMAND = re.compile(rf"^(?:[A-Z_]+=\S+ )*(?:{'|'.join(map(re.escape, PROGRAMS))})(?: |$)")
_OURS = re.compile(r"(?:python -m moccasin_mzn|moccasin-mzn)( [^|&;<>$`*]*)?")
_EXTRA = re.compile(r"# .*pip install (?:-e )?'\.\[(\w+)\]'")
_WORDS = re.compile(r"(full|torch|slow)|status (\d+)|with ([\w.-]+)")


@dataclass(frozen=True)
class Command:
    """A command of a block, and what the page shows of its answer; None: nothing."""

    text: str
    shown: str | None
    status: int = 0
    needs: str = ""
    """A package without which it is not run: one of the extra that a comment behind it names."""


@dataclass(frozen=True)
class Shell:
    """A block that a shell takes."""

    place: str
    """Page and line."""
    commands: tuple[Command, ...]
    level: str
    """When it is run: "default", "full", "torch" or "slow"."""
    needs: tuple[str, ...] = ()
    """Programs and solvers."""
    reason: str = ""
    """Why it is not run; empty if it is."""


RUN_ELSEWHERE = "docs/extending.md"
"""`test_extending.py` does what it says, in a copy of the package."""
MEASURED = "docs/benchmarks.md"
"""Its commands are measurements of minutes to hours."""


def is_shell(block: Block) -> bool:
    """Does a shell take it?"""
    if block.language == "console":
        return True
    lines = [line for line in block.text.splitlines() if line.strip()]
    return block.language in ("", "sh") and bool(lines) and bool(_COMMAND.match(lines[0].strip()))


def shells(name: str) -> list[Shell]:
    """The shell blocks of a page."""
    return [_shell(name, block) for block in page(name).blocks if is_shell(block)]


def _shell(name: str, block: Block) -> Shell:
    level, status, needs, reason = "default", 0, [], ""
    if block.mark.startswith("not run: "):
        reason = block.mark.removeprefix("not run: ")
    elif block.mark:
        for word in block.mark.split(","):
            found = _WORDS.fullmatch(word.strip())
            assert found, f"{name}:{block.line}: {word} is no way to run a block"
            level = found[1] or level
            status = int(found[2] or status)
            needs += [found[3]] if found[3] else []
    commands = list(_commands(block))
    commands[-1] = replace(commands[-1], status=status)
    return Shell(f"{name}:{block.line}", tuple(commands), level, tuple(needs), reason)


def _commands(block: Block) -> Iterator[Command]:
    text = block.text.replace("\\\n", " ")
    if block.language == "console":
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            yield Command(_bare(command), shown.strip("\n") or None)
    else:
        for line in text.splitlines():
            if line.strip():
                extra = _EXTRA.search(line)
                assert extra or "  # pip" not in line, f"{line}: no extra of the package"
                yield Command(_bare(line), None, needs=EXTRAS[extra[1]] if extra else "")


def _bare(line: str) -> str:
    """Without a comment, and without the "..." that stands for more of the same."""
    return re.sub(r"\s#\s.*| \.\.\.(?= |$)", "", line).strip()


def agrees(shown: str, printed: str) -> bool:
    """Is it what the page shows? Blanks count as one, rules of a table as one dash."""
    parts = re.split(r"(\s*\.\.\.\s*)", _plain(shown))
    pattern = "".join(r".*" if part.strip() == "..." else re.escape(part) for part in parts)
    return re.fullmatch(pattern, _plain(printed), re.S) is not None


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", text)).strip()


SHELLS = {name: shells(name) for name in PAGES if name not in (RUN_ELSEWHERE, MEASURED)}
"""The shell blocks of each page."""


def pages_of(*levels: str) -> list[str]:
    """Pages that have blocks of these levels which are run."""
    return [name for name in SHELLS if _blocks_of(name, levels)]


def run_page(folder: Folder, name: str, *levels: str) -> None:
    """Run a page's blocks of these levels in their order, as far as what they need is here."""
    blocks = [block for block in _blocks_of(name, levels) if all(is_here(need) for need in block.needs)]
    commands = [(block.place, one) for block in blocks for one in block.commands if not one.needs or is_here(one.needs)]
    folder.prepare(one for _, one in commands)
    wrong = [f"{place}: {told}" for place, one in commands if (told := folder.run(one)) is not None]
    assert not wrong, "\n\n".join(wrong)


def _blocks_of(name: str, levels: Iterable[str]) -> list[Shell]:
    return [block for block in SHELLS[name] if block.level in levels and not block.reason]


def is_here(need: str) -> bool:
    """Is there this program, this Python package, or this solver?"""
    return bool(shutil.which(need) or find_spec(need) or need in known_solvers())


# where they run

_SCRIPT = """#!{python}
import sys
from moccasin_mzn.__main__ import main
sys.argv[0] = "moccasin-mzn"
sys.exit(main())
"""


@dataclass
class Folder:
    """A folder with what pages take for granted, and how commands are run there."""

    path: Path
    call: Callable[..., tuple[int, str, str]]
    """Runs a command line of the package in this process: the fixture `command`."""
    made: set[str] = field(default_factory=set)
    """Names of `FILES`."""

    @classmethod
    def of(cls, path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Folder:
        """The folder that everything runs in from now on."""
        monkeypatch.chdir(path)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("HOME", str(path))  # where solvers are made known
        return cls(path, command)

    def prepare(self, commands: Iterable[Command]) -> None:
        """Make what the commands take for granted."""
        for name in LINKED:
            (self.path / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "data", self.path / "data")
        binaries = self.path / ".venv" / "bin"
        binaries.mkdir(parents=True)
        (binaries / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (binaries / "moccasin-mzn").write_text(_SCRIPT.format(python=sys.executable))
        for program in binaries.iterdir():
            program.chmod(0o755)
        self._provide("\n".join(command.text for command in commands))

    def _provide(self, text: str) -> None:
        """Make what is named there, and before it what that takes."""
        for name, content in FILES.items():
            if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text) and name not in self.made:
                self.made.add(name)
                self._provide(content if isinstance(content, str) else "")
                self._make(name, content)

    def _make(self, name: str, content: str | Callable[[], bytes]) -> None:
        if isinstance(content, str) and content.startswith("python -m"):
            for line in content.splitlines():
                status, _, error = self._answer(line)
                assert status == 0, f"{line}: {error}"
            return
        path = self.path / (name.replace(".", "/") + ".py" if name == "my.module" else name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content())

    def run(self, command: Command) -> str | None:
        """What is wrong with it; None: nothing."""
        status, out, error = self._answer(command.text)
        if status != command.status:
            return f"{command.text}: exit status {status}, not {command.status}\n{out}{error}"
        answer = out if status in (0, 1) else error
        if command.shown is not None and not agrees(command.shown, answer):
            return f"{command.text}: the page shows\n{command.shown}\nand it prints\n{answer}"
        return None

    def _answer(self, text: str) -> tuple[int, str, str]:
        if ours := _OURS.fullmatch(text):
            return self.call(*shlex.split(ours[1] or ""))
        path = f"{self.path / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", text], cwd=self.path, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr
