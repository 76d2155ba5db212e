"""Installs the peers from Debian's archive: asks nothing, says what it installs, starts no service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from castbed.errors import UnavailableError

APT_S_MAX = 900.0
POLICY = Path("/usr/sbin/policy-rc.d")
NO_SERVICE = "#!/bin/sh\nexit 101\n"  # what Debian's packages take for "start nothing"


def install(packages: Sequence[str]) -> None:
    """Have these packages on the machine; UnavailableError says what stands in the way."""
    if packages and os.geteuid() != 0:
        raise UnavailableError("peers are installed and started by root only; run as root, or with `--only castbed`")
    missing = [package for package in packages if not _is_installed(package)]
    if not missing:
        return
    wanted = " ".join(missing)
    if shutil.which("apt-get") is None:
        raise UnavailableError(f"this machine has no apt-get, and the peers need the Debian packages {wanted}")
    print(f"installing {wanted} ...", file=sys.stderr, flush=True)
    with _no_services():
        _apt_get("update")
        _apt_get("install", "--yes", "--no-install-recommends", *missing)


def _is_installed(package: str) -> bool:
    if shutil.which("dpkg-query") is None:
        return False
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True)
    return asked.stdout.strip() == "install ok installed"


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=APT_S_MAX)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"apt-get {arguments[0]} took more than {APT_S_MAX:g} s") from None
    if done.returncode:
        raise UnavailableError(f"apt-get {arguments[0]} failed: {done.stderr.strip()[-500:]}")


@contextmanager
def _no_services() -> Iterator[None]:
    """Packages that come with a service do not start it, unless somebody has a policy already."""
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text(NO_SERVICE, encoding="ascii")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()
