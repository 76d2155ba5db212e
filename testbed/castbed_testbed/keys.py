"""Where the key of an experiment comes from: a file or an environment variable, named in the experiment.

The key itself is read when a plan is made and lives in memory only; what a run keeps is the name of its source.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from castbed.authentication import KEY_BYTES_MIN, Seal
from castbed.errors import ConfigurationError

KEY_BYTES_MAX = 4_096  # a longer file is some other file
RUN_BYTES = 16
NAME_CHARACTERS_MAX = 64
NAME = re.compile(r"[A-Z0-9]*(_[A-Z0-9]*)+")  # surely of a variable: no hex, base32 or base64 is written so


class KeySource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`key = { file = "..." }` or `key = { env = "..." }`; a file is looked for beside the experiment."""

    file: str | None = None
    env: str | None = None


class Secret:
    """A key, and random bytes of the run that it is used in; it does not show itself when printed."""

    def __init__(self, key: bytes, run: bytes) -> None:
        self.key = key
        self.run = run

    def __repr__(self) -> str:
        return "Secret(...)"

    def seal(self) -> Seal:
        """For frames of this run on real networks."""
        return Seal(self.key, self.run)

    def simulated_seal(self, seed: int) -> Seal:
        """For frames in the simulator: equal runs seal equally, and no other network takes them."""
        return Seal(self.key, f"simulated/{seed}".encode())


def with_key_path(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data with the path of the key's file in full, so that it runs again from anywhere."""
    key = data.get("key")
    if not isinstance(key, dict) or not isinstance(key.get("file"), str):
        return data
    return {**data, "key": {**key, "file": str((folder / key["file"]).resolve())}}


def read_key(source: KeySource) -> Secret:
    """The key; every reason why there is none is a ConfigurationError that names the source, never the key."""
    if (source.file is None) == (source.env is None):
        raise ConfigurationError("key", "name either a file or an environment variable: { file = ... }, { env = ... }")
    path, key = ("key.env", _from_environment(source.env)) if source.env is not None else _from_file(str(source.file))
    if len(key) < KEY_BYTES_MIN:
        raise ConfigurationError(path, f"the key there is too short: it needs {KEY_BYTES_MIN} bytes at least")
    return Secret(key, os.urandom(RUN_BYTES))


def _from_environment(name: str) -> bytes:
    value = os.environb.get(os.fsencode(name))
    if value is None:
        raise ConfigurationError("key.env", f"the environment has no variable {_shown(name)}")
    return value.strip()


def _shown(name: str) -> str:
    """The name, unless it may be the key itself, put there by mistake."""
    if NAME.fullmatch(name) and len(name) <= NAME_CHARACTERS_MAX:
        return repr(name)
    return "of the name that stands there (is it the key itself? the name of a variable belongs there)"


def _from_file(name: str) -> tuple[str, bytes]:
    try:
        with Path(name).open("rb") as file:
            key = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError("key.file", f"{name} cannot be read ({error.strerror})") from None
    if len(key) > KEY_BYTES_MAX:
        raise ConfigurationError("key.file", f"{name} is longer than a key ({KEY_BYTES_MAX} bytes)")
    return "key.file", key.strip()
