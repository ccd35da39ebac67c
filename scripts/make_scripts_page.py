"""Writes scripts/README.md: a line for each script, the first one of its docstring or comment.

python scripts/make_scripts_page.py
"""

from __future__ import annotations

import ast
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
PAGE = SCRIPTS / "README.md"
KINDS = {
    "Benchmarks": ("bench_", "compare_", "public_", "package_"),
    "Soaks and fuzzing": ("soak", "fuzz_", "mutation_"),
    "Data, tables and pictures": ("make_", "paper_", "_picture", "_table.py", "_statistics", "quantize_"),
    "Shell": (".sh",),
}
"""By heading what stands in the names of its scripts; other ones are imported by these."""
HEAD = """\
# Scripts

What each script measures or makes; `python scripts/NAME.py --help` has its options. This page is made from the first
line of each (`python scripts/make_scripts_page.py`).
"""


def scripts() -> list[Path]:
    """All scripts; the modules of a folder have their line in that of the script."""
    return sorted(path for path in SCRIPTS.iterdir() if path.suffix in (".py", ".sh"))


def first_line(path: Path) -> str:
    """What a script measures or makes, in one sentence or more; empty if absent."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".sh":
        return next((line.lstrip("# ") for line in source.splitlines()[1:2] if line.startswith("# ")), "")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def heading_of(path: Path) -> str:
    """The heading under which a script stands."""
    return next(
        (name for name, words in KINDS.items() if any(word in path.name for word in words)), "Imported by these"
    )


def text() -> str:
    """The page."""
    parts = [HEAD]
    for heading in (*KINDS, "Imported by these"):
        rows = [f"| `{path.name}` | {first_line(path)} |" for path in scripts() if heading_of(path) == heading]
        parts.append(
            "\n".join([f"## {heading}\n", "| script | what it measures or makes |", "| --- | --- |", *rows, ""])
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
