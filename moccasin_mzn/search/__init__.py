"""The searches of one call: they run in parallel and share what they find."""
