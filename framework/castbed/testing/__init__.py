"""What plugin authors test with; our own tests use nothing else."""

from castbed.testing.bench import Bench, Copy

__all__ = ["Bench", "Copy"]
