"""`doctor`: what this machine has, what it lacks, and what each thing is for."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
from rich.markup import escape

from castbed.registry import load_registry
from castbed_testbed.cli import console
from castbed_testbed.hosting.leftovers import leftovers, remove_leftovers


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at. What is not `required` is only missed by those who use it."""

    what: str
    found: bool
    detail: str
    required: bool = True


def doctor_command(as_json: bool, clean: bool = False) -> int:
    """Look at everything; `clean` removes what dead runs left first."""
    findings = [*_findings(), _leftovers(clean)]
    healthy = all(finding.found for finding in findings if finding.required)
    if as_json:
        console.print_json({"healthy": healthy, "findings": [msgspec.to_builtins(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = "[green]✓[/green]" if finding.found else "[red]✗[/red]" if finding.required else "[yellow]–[/yellow]"
            console.out().print(f"{mark} {finding.what}: {escape(finding.detail)}", soft_wrap=True)
    return 0 if healthy else 3


def _findings() -> list[Finding]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    return [
        Finding("python", sys.version_info >= (3, 11), f"{python} (3.11 or newer is needed)"),
        *[_package(name) for name in ("msgspec", "pluggy", "rich", "typer", "tomli_w")],
        _writable(),
        *_plugins(),
        _program("tshark", "reads captures; Debian: apt-get install tshark"),
        _optional_package("scapy", "dissects captures in Python; pip install 'castbed[scapy]'"),
        _spark(),
        *_networks(),
    ]


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, version(name.replace("_", "-")))
    except PackageNotFoundError:
        return Finding(name, False, "missing; reinstall castbed")


def _optional_package(name: str, purpose: str) -> Finding:
    found = find_spec(name) is not None
    return Finding(
        name, found, f"{version(name)}, {purpose.split(';')[0]}" if found else f"not there: {purpose}", False
    )


def _program(name: str, purpose: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, path is not None, path or f"not there: {purpose}", required=False)


def _spark() -> Finding:
    """Asked by name, because no room imports the one that knows."""
    found, detail = import_module("castbed_spark.findings").spark_finding()
    return Finding("spark", found, detail, required=False)


def _networks() -> list[Finding]:
    findings = import_module("castbed_adapters.findings").network_findings()
    return [Finding(what, found, detail, required=False) for what, found, detail in findings]


def _leftovers(clean: bool) -> Finding:
    """Of runs on real networks; namespaces and interfaces vanish with their processes, directories do not."""
    removed, left = remove_leftovers() if clean else [], leftovers()
    if left:
        detail = f"{_listed(left)}; `castbed doctor --clean` or the next run removes them"
    else:
        detail = f"removed {_listed(removed)}" if removed else "nothing is left of dead runs"
    return Finding("leftovers", not left, detail, required=False)


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _writable() -> Finding:
    here = Path.cwd()
    return Finding("this directory", os.access(here, os.W_OK), "runs are written to castbed-runs/ in it")


def _plugins() -> list[Finding]:
    registry = load_registry()
    protocols = ", ".join(protocol.name for protocol in registry.protocols)
    good = Finding("plugins", True, f"protocols {protocols or 'none'}")
    bad = [
        Finding(f"plugin {p.plugin}", False, f"from {p.distribution}: {p.problem}", False) for p in registry.problems
    ]
    return [good, *bad]
