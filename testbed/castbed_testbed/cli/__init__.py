"""The command line: data on stdout, logs and progress on stderr, every mistake one sentence and an exit code."""

from castbed_testbed.cli.main import main

__all__ = ["main"]
