"""Pages, help, docstrings, comments, names and messages use the words of the field, not those on the left."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator

import click
import pytest
from documents import NOTEBOOKS, PAGES, ROOT

from moccasin_mzn.cli.main import main

INSTEAD = {
    r"\b(told|tells?|telling|said|saying|says?)\b": "reports, states, shows, means, determines",
    r"\bbeside\b": "alongside, next to, in addition to",
    r"\b(held|holding)\b": "retained, in memory",
    r"\bcomput(e|es|ed|ing)((?: |\n *)\w+){0,4}(?: |\n *)again\b(?!\[)": "recompute",
    r"(?<!of )\bcourse\b": "control flow",
    r"\b(blame|twins?|heed(s|ed)?)\b": "cause; scratch copy; respect",
    r"\b(hills?|sights?)\b": "peaks; moments",
    r"(?<!Pareto )(?<!in )(?<!to the )(?<![-/])\bfronts?\b(?![.\w])": "frontier",
    r"\b(in|of) doubles\b": "in floating point",
    r"\b(alone fastest|alike)\b|\b(s|seconds|\w*\d) in all\b|\bin all(?=[.,;:)|]|$)": "unique wins; ties; in total",
    r"\brivals?\b": "baseline",
    r"\b(take part|look up|adding to it|past the paper)\b": "contributing; reference; extending; beyond the paper",
    r"^#+ (questions|begin|budgets that nothing keeps|one option at a time)\b": "FAQ, getting started, ablation",
}
"""By pattern of a word that readers would have to guess, what the field has for it. Case does not matter."""
OFFLOADING = r"\bslow memory\b", "offloading to host memory"
"""In PyTorch, where it has a name; a problem of several memories has slow memory."""

FORMAT = re.compile(r"tree-decomposition-held|`(sights|sight|held)\W|[\"(]sights?\"|\"held\"")
"""Names that files have: of a strategy in results, of rules in certificates."""
CERTIFICATES = "moccasin_mzn/problem/judges/certificates.py", "moccasin_mzn/bounds/certificates/", "docs/correctness.md"
"""Where the keys and the rules of certificates, a file format, are explained."""


def findings(text: str, name: str) -> list[str]:
    """The words of a text that have others instead, with what these are."""
    text = FORMAT.sub(" ", text)
    if name.startswith(CERTIFICATES):
        text = re.sub(r"\b(sights?|held)\b", " ", text, flags=re.IGNORECASE)
    patterns = INSTEAD | (dict([OFFLOADING]) if "pytorch" in name or name == "docs/training.md" else {})
    return [
        f"{name}: {found[0]!r} in {text[max(0, found.start() - 40) : found.end() + 20]!r}: {instead}"
        for pattern, instead in patterns.items()
        for found in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]


OTHER_PAGES = "docs/index.md", "docs/reference/commands.rst", "docs/reference/python.rst", "docs/_templates/start.html"


@pytest.mark.parametrize("name", [*PAGES, *OTHER_PAGES])
def test_pages(name):
    assert findings((ROOT / name).read_text(encoding="utf-8"), name) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(name):
    cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
    assert findings("\n\n".join("".join(cell["source"]) for cell in cells), name) == []


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for below, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{name} {below}")


@pytest.mark.parametrize(("name", "command"), list(commands(main, "moccasin-mzn")))
def test_help(name, command):
    context = command.make_context(name, [], resilient_parsing=True)
    assert findings(command.get_help(context), name) == []


def modules(folder: str) -> Iterator[tuple[str, str]]:
    """Name and source of each module."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def texts(source: str) -> Iterator[str]:
    """Names, comments and texts of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
        if token.type == tokenize.NAME:
            yield token.string.replace("slow_memory", "").replace("_", " ")  # a keyword of `plan`
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


FOLDERS = pytest.mark.parametrize("folder", ["moccasin_mzn", "examples", "scripts"])


@FOLDERS
def test_names_comments_docstrings_and_messages(folder):
    found = []
    for name, source in modules(folder):
        flat = re.sub(r'"\s*[fr]?"', "", source).replace("_", " ")  # texts in several lines are one
        if findings(flat, name):  # one by one takes long
            found += [line for text in dict.fromkeys(texts(source)) for line in findings(text, name)]
    assert found == []


def test_what_is_found_and_what_is_not():
    def found(text, name="docs/faq.md"):
        return [line.partition("'")[2].partition("'")[0] for line in findings(text, name)]

    assert found("It tells what is held beside the network.") == ["tells", "beside", "held"]
    assert found("b is computed twice, and computed once again") == ["computed once again"]
    assert found("# Questions") == ["# Questions"] and found("Questions are asked") == []
    assert found("the front, in front of it, the Pareto front, `front.svg`") == ["front"]
    assert found("12.5 s in all; in all figures") == ["s in all"]
    assert found("slow memory") == [] and found("slow memory", "moccasin_mzn/pytorch/plan.py") == ["slow memory"]
    assert found("the rule `held`, `tree-decomposition-held`, of course") == []


OPENING = re.compile(
    r"Of (?!course)|(Without|Those|They|Them|Its?|Whoever|Nobody|That of|What (they|its?)|So (many|much|often|long))\b"
)
"""What leaves the reader to guess what it is that is described."""
PARTITIVE = "".join(f"(?<!{word} )" for word in ("each", "all", "none", "one", "some", "both", "first", "last"))
UNPLAIN = re.compile(
    rf"\b(so many|{PARTITIVE}of which|(?<!there )is none|anew|puts? out|nobody|whoever)\b", re.IGNORECASE
)
"""Words of docstrings for which there are plainer ones: this many, whose, is absent, again, outputs, no caller."""


def docstrings(source: str) -> Iterator[str]:
    """Docstrings of a module, those of constants and fields included."""
    for node in ast.walk(ast.parse(source)):
        for one in node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.value.value


def unclear(docstring: str) -> list[str]:
    """The opening of a docstring that has no subject, and words for which there are plainer ones."""
    words = [found[0] for found in UNPLAIN.finditer(docstring) if not found[0].endswith("None")]
    return [found[0] for found in [OPENING.match(docstring.strip())] if found] + words


@FOLDERS
def test_docstrings_have_a_subject_and_plain_words(folder):
    found = []
    for name, source in modules(folder):
        for docstring in docstrings(source):
            found += [f"{name}: {word!r} in {docstring[:80]!r}" for word in unclear(docstring)]
    assert found == []


def test_what_is_unclear_and_what_is_not():
    assert unclear("Without its number.") == ["Without"] and unclear("The kind of the device, without its index.") == []
    assert unclear("What they prove.") == ["What they"] and unclear("What the cases prove.") == []
    assert unclear("Its name.") == ["Its"] and unclear("It ends.") == ["It"] and unclear("Items, of course.") == []
    assert unclear("After so many rounds, of which each is one.") == ["so many", "of which"]
    assert unclear("A text, which is None, or there is none; two rows, each of which is read.") == []
    assert unclear("What is none, made anew, puts out what nobody reads, whoever asks.") == [
        "is none", "anew", "puts out", "nobody", "whoever",
    ]  # fmt: skip
