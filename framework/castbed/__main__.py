"""`python -m castbed` is the `castbed` command, whichever installed package provides it."""

from importlib.metadata import entry_points

if __name__ == "__main__":
    (command,) = entry_points(group="console_scripts", name="castbed")
    command.load()()
