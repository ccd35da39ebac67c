"""One call: searches beside each other, and what they know."""
