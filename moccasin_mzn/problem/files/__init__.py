"""Files of schedules, plans, orders, counts and buffers."""
