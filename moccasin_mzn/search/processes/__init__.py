"""Commands in processes of their own, with limits, that leave nothing running behind."""
