"""A corpus: scripts in a folder, each with what it expects, played in every test run.

@pytest.mark.parametrize("path", scripts_in(FOLDER), ids=lambda path: path.stem)
def test_the_script_does_what_it_expects(path: Path) -> None:
    assert what_changed(path, load_registry()) == ""
"""

from __future__ import annotations

from pathlib import Path

from castbed.errors import CastbedError
from castbed.registry import Registry
from castbed_testbed.explore.judging import arena_of, label
from castbed_testbed.explore.replaying import ExactReplay, WatchedWorld
from castbed_testbed.explore.script import SUFFIX, Script, read


def scripts_in(folder: Path) -> list[Path]:
    """The scripts of a folder and of the folders in it, by name."""
    return sorted(folder.rglob(f"*{SUFFIX}"))


def violated_by(script: Script, registry: Registry) -> tuple[str, ...]:
    """What the script violates, as `property/kind`; a step that cannot happen is a ConfigurationError."""
    arena = arena_of(script, registry)
    played = ExactReplay(WatchedWorld(arena))
    played.play(script.steps, script.settles, arena.freedoms)
    return tuple(dict.fromkeys(label(violation) for violation in played.violations))


def what_changed(path: Path, registry: Registry) -> str:
    """How the outcome of a script differs from what it expects, in words; empty when it does not."""
    script = read(path)
    try:
        violated = violated_by(script, registry)
    except CastbedError as error:
        return str(error)
    if set(violated) == set(script.expects):
        return ""
    expected, now = (", ".join(sorted(names)) or "nothing" for names in (script.expects, violated))
    return f"expects {expected} to be violated; now it is {now}"
