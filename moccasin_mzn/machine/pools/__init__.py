"""Memories of one device: where each output lies is decided together with what is recomputed."""
