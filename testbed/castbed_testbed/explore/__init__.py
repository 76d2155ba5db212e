"""Exploration: searches the schedules that a protocol's system model allows for one that breaks what it claims."""
