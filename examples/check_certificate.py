"""A proof that no schedule in any order is shorter, checked by a program that believes no solver.

$ python examples/check_certificate.py
schedule: duration 1,157,023,924,224 FLOP, 0.0784 % more, within the budget 1.57 GiB
proven: optimal: no schedule is shorter, any order, any number of computations ...
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

GRAPH = Path(__file__).resolve().parents[1] / "data" / "unet_training.json"


def moccasin(*arguments: str | Path) -> str:
    """The output of `moccasin-mzn` with these arguments."""
    command = [sys.executable, "-m", "moccasin_mzn", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    with TemporaryDirectory() as folder:
        proof = Path(folder) / "proof.json"
        moccasin("solve", GRAPH, "--budget", "0.8", "--time-limit", "30", "--certificate", proof)
        print(moccasin("check-certificate", GRAPH, proof), end="")


if __name__ == "__main__":
    main()
