"""The project's pages and notebooks as what they quote: links, commands, paths, modules, Python examples."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / name / "README.md" for name in ("data", "examples", "models")),
        *sorted((ROOT / "docs").glob("*.md")),
    )
)
"""Relative to the checkout."""
NOTEBOOKS = tuple(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")))
"""The same."""

_ANSWER = re.compile(r"^ *print\(.*\)  # (.+)$", re.M)
_FENCES = ("fence", "code_block")


@dataclass(frozen=True)
class Block:
    """A block of code."""

    language: str
    """"" if the page names none."""
    text: str
    mark: str = ""
    """What stands behind the language and is not shown: how it is run, see `page_runs`."""
    line: int = 0
    """Of the page, where it begins."""

    @property
    def answers(self) -> list[str]:
        """What a Python example says that it prints, a line each: the comments behind its `print` lines."""
        return _ANSWER.findall(self.text)


@dataclass(frozen=True)
class Page:
    """One page, parsed."""

    name: str
    """Path relative to the checkout."""
    links: tuple[str, ...]
    """Targets of links and images, as written."""
    anchors: frozenset[str]
    """What links to this page may name behind a "#", as the code host makes it of headings."""
    codes: tuple[str, ...]
    """Code within text."""
    blocks: tuple[Block, ...]

    @property
    def folder(self) -> Path:
        """That links are relative to."""
        return (ROOT / self.name).parent

    @property
    def lines(self) -> Iterator[str]:
        """All that is code, but for Python and answers of programs: codes within text, and the lines of blocks without
        their comments, continued lines joined."""
        yield from self.codes
        for block in self.blocks:
            if block.language != "python":
                yield from (_without_comment(line) for line in block.text.replace("\\\n", " ").splitlines())

    @property
    def code(self) -> str:
        """All code, as text."""
        return "\n".join((*self.codes, *(block.text for block in self.blocks)))


@cache
def page(name: str) -> Page:
    """The page, or the notebook, of a path relative to the checkout."""
    text = (ROOT / name).read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(_as_page(text) if name in NOTEBOOKS else text)
    inline = [child for token in tokens for child in token.children or ()]
    return Page(
        name=name,
        links=tuple(str(token.attrs[key]) for token in inline for key in ("href", "src") if key in token.attrs),
        anchors=frozenset(_anchors(tokens)),
        codes=tuple(token.content for token in inline if token.type == "code_inline"),
        blocks=tuple(_block(token) for token in tokens if token.type in _FENCES),
    )


def _as_page(notebook: str) -> str:
    """A notebook as a page: cells of code are blocks, for a shell or in Python."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            magic, _, lines = text.partition("\n")
            text = f"~~~sh\n{lines}\n~~~" if magic.startswith("%%sh") else f"~~~python\n{text}\n~~~"
        parts.append(text)
    return "\n\n".join(parts)


def _block(token: Token) -> Block:
    language, _, mark = token.info.strip().partition(" ")
    return Block(language, token.content, mark.strip(), token.map[0] + 1)


def _anchors(tokens: list[Token]) -> Iterator[str]:
    """Of headings: lower case, without punctuation, blanks as hyphens; the second of a name has "-1" behind it."""
    seen: dict[str, int] = {}
    for opening, heading in zip(tokens, tokens[1:], strict=False):
        if opening.type == "heading_open":
            text = "".join(child.content for child in heading.children or ())
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            yield f"{anchor}-{seen[anchor]}" if anchor in seen else anchor
            seen[anchor] = seen.get(anchor, 0) + 1


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#\s.*", "", line).strip()


def words(line: str) -> list[str]:
    """A command line in words, up to a pipe; of one that is not whole, what blanks make of it."""
    try:
        found = shlex.split(line)
    except ValueError:
        found = line.split()
    return found[: found.index("|")] if "|" in found else found
