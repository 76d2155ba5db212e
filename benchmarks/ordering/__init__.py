"""The parts of `benchmarks/group.py`: what is compared, where it runs, and how each system is driven."""
