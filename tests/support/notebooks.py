"""The notebooks, run as Jupyter runs them, and what is wrong with them as they are kept."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MOST_SECONDS = 600
"""Of a cell, on a machine that does other things as well."""
MOST_CELLS = 12
"""Of code: they are to be read in one go."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def run_notebook(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a copy of a notebook in a folder, in a kernel of its own; fail with notebook, cell and error."""
    import nbclient
    import nbformat
    from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

    monkeypatch.setenv("HOME", str(folder))  # no settings of whoever runs the tests
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    copy = Path(shutil.copy(path, folder))
    begun: list[Any] = []
    client = nbclient.NotebookClient(
        nbformat.read(copy, as_version=4), timeout=MOST_SECONDS, coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}}, on_cell_start=lambda cell, cell_index: begun.append(cell),
    )  # fmt: skip
    try:
        client.execute()
    except (CellControlSignal, CellExecutionError, DeadKernelError) as error:
        pytest.fail(f"{path.name}, cell {begun[-1].id}: {_COLOURS.sub('', str(error))}", pytrace=False)


def flaws(path: Path) -> Iterator[str]:
    """What a notebook has that is not to be kept in the repository."""
    book = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for cell in book["cells"]:
        where = f"cell {cell.get('id')}"
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield f"{where}: outputs, to be cleared: jupyter nbconvert --clear-output --inplace {path.name}"
        if cell["metadata"]:
            yield f"{where}: metadata of whoever ran it"
    if set(book["metadata"]) != {"kernelspec", "language_info"} or book["metadata"]["kernelspec"]["name"] != "python3":
        yield "metadata: a kernel python3 and the language, nothing else"
    if len(cells) > MOST_CELLS:
        yield f"{len(cells)} code cells, more than {MOST_CELLS}"
