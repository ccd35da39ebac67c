"""The notebooks are kept without outputs, and run; that with PyTorch is in `tests/pytorch`."""

from __future__ import annotations

import json

import pytest
from documents import NOTEBOOKS, ROOT
from notebooks import flaws, run_notebook

NEEDS_TORCH = "docs/notebooks/pytorch.ipynb"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_stored_without_outputs(name):
    assert list(flaws(ROOT / name)) == []


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != NEEDS_TORCH])
def test_cells_of_notebooks_run(name, monkeypatch, tmp_path):
    run_notebook(ROOT / name, tmp_path, monkeypatch)


def changed(path, source, **cell):
    """A copy of a notebook with a last cell."""
    book = json.loads((ROOT / NEEDS_TORCH).read_text(encoding="utf-8"))
    last = {"cell_type": "code", "id": "last", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
    path.write_text(json.dumps({**book, "cells": [{**last, **cell}]}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ({}, []),
        ({"execution_count": 3}, ["cell last: outputs, to be cleared"]),
        ({"outputs": [{"output_type": "stream"}]}, ["cell last: outputs, to be cleared"]),
        ({"metadata": {"collapsed": True}}, ["cell last: metadata"]),
    ],
)
def test_notebook_outputs_are_reported(tmp_path, cell, told):
    found = list(flaws(changed(tmp_path / "one.ipynb", "1 + 1", **cell)))
    assert len(found) == len(told) and all(map(str.startswith, found, told))


@pytest.mark.full
@pytest.mark.parametrize(
    ("source", "told"),
    [("%%sh -e\nfalse\ntrue", "CalledProcessError"), ("print(nothing)", "NameError: name 'nothing' is not defined")],
)
def test_a_cell_that_fails_is_reported(monkeypatch, tmp_path, source, told):
    path = changed(tmp_path / "one.ipynb", source)
    (tmp_path / "run").mkdir()
    with pytest.raises(pytest.fail.Exception, match="one.ipynb, cell last: ") as failed:
        run_notebook(path, tmp_path / "run", monkeypatch)
    assert told in str(failed.value)
