"""The blocks of the pages that need PyTorch, for a shell and in Python."""

from __future__ import annotations

import contextlib
import io

import pytest
from documents import PAGES, page
from page_runs import Folder, pages_of, run_page

PYTHON = [
    name for name in PAGES if any((block.language, block.mark) == ("python", "torch") for block in page(name).blocks)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", pages_of("torch"))
def test_shell_blocks_with_torch_run(command, monkeypatch, tmp_path, name):
    monkeypatch.syspath_prepend(str(tmp_path))  # where `python -m` finds my.module
    run_page(Folder.of(tmp_path, command, monkeypatch), name, "torch")


@pytest.fixture
def theirs():
    """What stands for a reader's own network and batch; what a page sets of PyTorch is set back."""
    torch = pytest.importorskip("torch", minversion="2.6")
    from torch._functorch import config

    settings = ("activation_memory_budget", "activation_memory_budget_solver")
    before = {name: getattr(config, name) for name in settings}
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(32, 32), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 10))
    names = {"torch": torch, "model": model, "x": torch.randn(512, 32), "y": torch.randint(10, (512,))}
    yield {**names, "optimizer": torch.optim.Adam(model.parameters()), "__name__": "page"}
    for name, value in before.items():
        setattr(config, name, value)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PYTHON)
def test_python_blocks_with_torch_run(theirs, name):
    for block in page(name).blocks:
        if (block.language, block.mark) == ("python", "torch"):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, f"{name}:{block.line}", "exec"), theirs)
            assert not block.answers or printed.getvalue().splitlines() == block.answers
