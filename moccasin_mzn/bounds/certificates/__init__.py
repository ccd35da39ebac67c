"""Bounds that anyone can check: flows, duals and cases, as `problem/judges/certificates.py` wants them."""
