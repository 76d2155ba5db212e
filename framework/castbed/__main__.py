"""`python -m castbed` is the `castbed` command, whichever installed package provides it."""

from importlib.metadata import distribution

if __name__ == "__main__":
    (command,) = distribution("castbed").entry_points.select(group="console_scripts", name="castbed")
    command.load()()
