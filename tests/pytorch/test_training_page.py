"""The page about training: its program runs and prints what it says, and makes true what it says of memory."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

import pytest
import torch
from documents import page

LIMITED = """
import resource
from moccasin_mzn.pytorch.side_by_side import side_by_side
from moccasin_mzn.pytorch.side_by_side import equality_text
side_by_side(found, (x, y), {}, steps=1)
step = found.module()
step(x, y).backward()
model.zero_grad(set_to_none=True)
with open("/proc/self/statm") as now:
    mapped = int(now.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 40 * MiB, resource.RLIM_INFINITY))
try:
    eager_step()
except RuntimeError as error:
    print(error)
model.zero_grad(set_to_none=True)
step(x, y).backward()
model.zero_grad(set_to_none=True)
beside = side_by_side(found, (x, y), {}, steps=1)
print(beside.eager, beside.equal, beside.plan.allocator_peak == found.predicted_peak, equality_text(beside))
"""
"""A limit between what the plan takes and what the step takes without it, where the rest of the program is mapped."""
BLOCKS = [block for block in page("docs/training.md").blocks if block.language == "python" and not block.mark]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_the_program_prints_what_it_says(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with torch.random.fork_rng():
        for block in BLOCKS:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, "docs/training.md", "exec"), names)
            assert printed.getvalue().splitlines() == block.answers
    assert (tmp_path / "plan.json").is_file()


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="it takes Linux to say how much is mapped")
def test_what_does_not_fit_is_trained_with_the_plan(tmp_path):
    upto = next(at for at, block in enumerate(BLOCKS) if "found = plan(" in block.text)
    program = "".join(block.text for block in BLOCKS[: upto + 1]) + LIMITED
    alone = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}  # what is freed goes back to the system
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, env={**os.environ, **alone}, text=True,
        capture_output=True, timeout=500,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    *_, error, compared = answer.stdout.splitlines()
    told = next(block.text for block in page("docs/training.md").blocks if "can't allocate memory" in block.text)
    assert error.partition("DefaultCPUAllocator")[2] == told.strip().partition("DefaultCPUAllocator")[2]
    assert compared.startswith("None None True 1 step with the plan; without it there is too little memory")
