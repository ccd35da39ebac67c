"""What `tests/conftest.py` leaves to the full run."""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.mark.few(2)
@pytest.mark.parametrize("case", range(20))
def test_few_leaves_the_others_to_the_full_run(case, request):
    here = [item for item in request.session.items if item.function.__name__ == request.function.__name__]
    by_default = {item.callspec.params["case"] for item in here if not any(item.iter_markers("full"))}
    assert len(by_default) <= 2 and (case in by_default) != any(request.node.iter_markers("full"))


def test_no_more_than_few_run_by_default(request):
    marked = [item for item in request.session.items if item.get_closest_marker("few")]
    counts = Counter(
        item.nodeid.partition("[")[0] for item in marked if not {"full", "slow"} & {m.name for m in item.iter_markers()}
    )
    most = {item.nodeid.partition("[")[0]: item.get_closest_marker("few").args[0] for item in marked}
    assert all(0 < count <= most[name] for name, count in counts.items())
