"""What comparing the state outside of a network's tensors takes at each call: microseconds, the least of many runs.

python scripts/bench_guards.py --blocks 2 --blocks 24
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial

import click
import torch
from torch import nn

from moccasin_mzn.pytorch import plan


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop, self.options = nn.LayerNorm(width), nn.Dropout(0.1), {"scale": 0.5, "rates": [1.0, 2.0]}
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.options["scale"] * sum(self.options["rates"])
        return x + scale * self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


def least(function: Callable[[], object], number: int = 100) -> float:
    """Microseconds of a call."""
    return 1e6 * min(timeit.repeat(function, number=number, repeat=30)) / number


@click.command()
@click.option("--blocks", multiple=True, default=(2, 24), help="Blocks of a network; may be given several times.")
def main(blocks: tuple[int, ...]) -> None:
    """Print a line for each network."""
    torch.set_num_threads(1)
    for count in blocks:
        torch.manual_seed(0)
        model, x = nn.Sequential(*(Block(16) for _ in range(count))), torch.randn(64, 16)
        found = plan(model, (x,), budget="1TiB", durations="flop", workspaces="none", time_limit=5)
        guards, step = found.traced.guards, found.module()
        tensors = [*guards.state(), x]
        parts = {
            "values": guards.attributes.watch.check, "attributes, submodules, hooks": guards.attributes.check,
            "settings": guards.settings.check, "all checks": partial(guards.check, tensors),
        }  # fmt: skip
        texts = ", ".join(f"{name} {least(part):.1f}" for name, part in parts.items())
        forward = least(partial(step, x), 10)
        values = len(guards.attributes.watch.found)
        print(f"{count} blocks, {values} values: {texts}; the forward pass {forward:.0f} us")


if __name__ == "__main__":
    main()
