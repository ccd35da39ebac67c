"""The oracle of plans and the cases of paging stand beside the tests of platforms."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "platforms"))
