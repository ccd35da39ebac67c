"""Train a PyTorch network within 70 % of the memory that its training step takes.

$ python examples/train_pytorch.py
peak within the budget: True
equal to the step without a plan, bit for bit: True
the loss falls: True
"""

import torch
from torch import nn

from moccasin_mzn.pytorch import plan


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(6)]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    x, y = torch.randn(2048, 64), torch.randint(10, (2048,))

    found = plan(model, (x, y), loss=nn.functional.cross_entropy, budget=0.7, time_limit=20, seed=0)
    check = found.verify((x, y))
    print("peak within the budget:", check.peak <= 0.7 * check.eager_peak)
    print("equal to the step without a plan, bit for bit:", check.equal)

    step = found.module()  # has the parameters of the network
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        optimizer.zero_grad(set_to_none=True)
        loss = step(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("the loss falls:", losses[-1] < losses[0])


if __name__ == "__main__":
    main()
