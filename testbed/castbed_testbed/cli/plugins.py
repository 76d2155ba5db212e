"""`plugins`, `new-plugin` and `dissector`: what is installed, and what helps to add to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from castbed.declarations import Protocol
from castbed.registry import Registry, load_registry
from castbed.units import Duration, show_duration
from castbed_testbed.cli import console


def plugins_command(as_json: bool) -> int:
    registry = load_registry()
    document = _document(registry)
    if as_json:
        console.print_json(document)
    else:
        _show(document)
    return 0


def _document(registry: Registry) -> dict[str, Any]:
    listed: dict[str, Any] = {"protocols": [protocol_document(registry, protocol) for protocol in registry.protocols]}
    for kind in ("memberships", "transports", "checks", "workloads", "applications"):
        register = getattr(registry, kind)
        listed[kind] = [
            {"name": d.name, "summary": d.summary, "distribution": register.distribution_of(d.name)} for d in register
        ]
    listed["errors"] = [
        {"plugin": p.plugin, "distribution": p.distribution, "problem": p.problem} for p in registry.problems
    ]
    return listed


def protocol_document(registry: Registry, protocol: Protocol) -> dict[str, Any]:
    """What the list says about a protocol."""
    default = protocol.variants[protocol.default_variant]
    return {
        "name": protocol.name,
        "summary": protocol.summary,
        "paper": protocol.paper,
        "model": protocol.model,
        "guarantees": list(default.guarantees),
        "variants": list(protocol.variants),
        "repair": {
            name: msgspec.to_builtins(variant.repair, enc_hook=_shown)
            for name, variant in protocol.variants.items()
            if variant.repair is not None
        },
        "needs": {name: sorted(variant.needs) for name, variant in protocol.variants.items()},
        "distribution": registry.protocols.distribution_of(protocol.name),
    }


def _shown(quantity: Any) -> Any:
    """A duration as it is written in an experiment, a size in bytes."""
    return show_duration(quantity) if isinstance(quantity, Duration) else int(quantity)


def _show(document: dict[str, Any]) -> None:
    screen = console.out()
    for kind, rows in document.items():
        if kind == "errors":
            continue
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        for column in ("name", "from", "what"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(row["name"], row["distribution"], _what(row))
        screen.print(table)
    for error in document["errors"]:
        where = f"{error['plugin']} (from {error['distribution']})"
        screen.print(f"[red]✗[/red] the plugin {where} cannot be used: {error['problem']}", soft_wrap=True)


def _what(row: dict[str, Any]) -> str:
    if "model" not in row:
        return str(row["summary"])
    return f"{row['summary']} [{row['model']}; {', '.join(row['variants'])}]".replace("[", r"\[")


def new_plugin_command(name: str, directory: Path | None) -> int:
    from castbed_testbed.new_plugin import write_plugin

    target = directory or Path(name)
    written = write_plugin(name, target)
    screen = console.out()
    screen.print(f"{len(written)} files in [bold]{target}[/bold]. Next:")
    screen.print(f"  cd {target} && pip install -e '.\\[test]' && pytest", soft_wrap=True)
    screen.print(f"  castbed conform {name}")
    return 0


def dissector_command(out: Path | None) -> int:
    from castbed.dissector import lua_dissector, packet_names

    text = lua_dissector(packet_names(load_registry()))
    if out is None:
        print(text, end="")
    else:
        out.write_text(text, encoding="utf-8")
    return 0
