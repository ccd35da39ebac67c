#!/bin/sh
# Runs everything that needs a GPU: the tests marked so, and a table of plans on it next to other methods.
# PYTHON names an interpreter with PyTorch. Takes at most 8 minutes, two of them for the tests; the exit status is 0 if all is well.
set -u
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}

timeout 150 "$python" -m pytest -q -p no:cacheprovider -m cuda tests/pytorch
status=$?
timeout 330 "$python" scripts/bench_gpu.py --seconds 240 "$@" || status=1
exit $status
