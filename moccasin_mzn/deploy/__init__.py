"""Schedules for runtimes: models and code that compute in the order of a schedule, what it computes again again."""
