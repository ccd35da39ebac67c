"""How PyTorch computes in all of these tests; without it none is collected."""

from __future__ import annotations

import pytest
from optional import WITH_TORCH

collect_ignore_glob = WITH_TORCH


@pytest.fixture(autouse=True)
def one_thread_and_plain_recurrent_layers(request):
    """Workspaces depend on threads; and recurrent layers of oneDNN have no operators that a trace could tell apart."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    recurrent = any(name in request.node.name for name in ("lstm", "gru"))
    with torch.backends.mkldnn.flags(enabled=not recurrent):
        yield
    torch.set_num_threads(before)
