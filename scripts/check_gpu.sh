#!/bin/sh
# Everything that needs a GPU: the tests marked so, and a table of plans on it. PYTHON names an interpreter with PyTorch.
# Runs in a few minutes; the exit status is that of the tests.
set -u
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

"$python" -m pytest -q -p no:cacheprovider -m cuda tests/pytorch
status=$?
"$python" scripts/bench_gpu.py "$@" || status=1
exit $status
