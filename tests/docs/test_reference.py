"""The reference pages match the code: every key, field, kind, property, command and option, and nothing else."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from struct import calcsize
from types import ModuleType
from typing import Any

import msgspec
import pytest
import typer.main
from doc_pages import DOCS, blocks, sections, table, tables

from castbed import load_registry
from castbed.capture import INTERFACES
from castbed.history import Kind
from castbed.properties import CHECKS
from castbed.records import Detail
from castbed.units import BitRate, ByteSize, Duration, show_duration
from castbed_testbed import experiment, faults, paths
from castbed_testbed.cli.main import app
from castbed_testbed.delays import Delay
from castbed_testbed.experiment import Experiment, Loaded, Named, load, load_file
from castbed_testbed.networks import build_topology
from castbed_testbed.plan import make_plan
from castbed_testbed.runner import run_experiment
from castbed_testbed.sim import options
from castbed_testbed.workloads import script, steady

EXPERIMENTS, COMMANDS = DOCS / "experiments.md", DOCS / "command-line.md"
CAPTURES, PROPERTIES = DOCS / "captures.md", DOCS / "properties.md"
EXAMPLE = DOCS.parent / "examples" / "two-questions.toml"
WHOLE = frozenset({"name", "protocol", "duration", "topology"})


def found(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


# --- experiments -----------------------------------------------------------------------------------------------------


def structs_of(module: ModuleType) -> Iterator[str]:
    for name, member in vars(module).items():
        is_struct = inspect.isclass(member) and issubclass(member, msgspec.Struct)
        if is_struct and member.__module__ == module.__name__ and member is not Loaded and not name.startswith("_"):
            yield f"{module.__name__}:{name}"


def test_every_table_of_the_experiment_file_is_described() -> None:
    wanted = {name for module in (experiment, faults, paths, steady, script, options) for name in structs_of(module)}
    assert tables(EXPERIMENTS, "keys").keys() == wanted


@pytest.mark.parametrize("reference", tables(EXPERIMENTS, "keys"))
def test_every_key_is_listed_with_its_default(reference: str) -> None:
    rows = tables(EXPERIMENTS, "keys")[reference]
    documented = {row[0].strip("`"): row[2].strip("`").strip('"') for row in rows}
    assert documented == {field.encode_name: default_text(field) for field in msgspec.structs.fields(found(reference))}


def default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if default is None or default in ("", [], {}, faults.Faults()):
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Named):
        return f'{{ name = "{default.name}" }}'
    if isinstance(default, msgspec.Struct):
        return "see below"
    return quantity_text(default)


def quantity_text(value: Any) -> str:
    if isinstance(value, Duration):
        return show_duration(value)
    if isinstance(value, Delay):
        return show_duration(value.low)
    if isinstance(value, BitRate):
        return f"{value // 10**6}Mbit/s"
    return f"{int(value)}B" if isinstance(value, ByteSize) else str(value)


def test_the_units_are_those_of_the_code() -> None:
    text = sections(EXPERIMENTS, 2)["Units"]
    for quantity in (Duration, BitRate, ByteSize):
        assert ", ".join(f"`{unit}`" for unit in quantity.units) in text


def toml_blocks() -> list[dict[str, Any]]:
    return [tomllib.loads(block.text) for block in blocks(EXPERIMENTS) if block.language == "toml"]


@pytest.mark.parametrize("data", [d for d in toml_blocks() if d.keys() >= WHOLE], ids=lambda data: data["name"])
def test_every_whole_experiment_runs_and_holds(data: dict[str, Any], tmp_path: Path) -> None:
    outcome = run_experiment(load(data), load_registry(), tmp_path / "run")
    assert outcome.failures == []
    assert outcome.summary["delivered"] > 0


def test_every_piece_of_an_experiment_fits_into_one() -> None:
    whole = next(data for data in toml_blocks() if data.keys() >= WHOLE)
    pieces = [data for data in toml_blocks() if not data.keys() >= WHOLE]
    assert len(pieces) > 5
    for piece in pieces:
        loaded = load({**whole, **piece}).experiment
        build_topology(loaded.topology)
        if loaded.topology.kind == "broadcast" and piece.keys() & {"protocol", "transport", "workload"}:
            make_plan(loaded, load_registry())


# --- captures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["castbed.wire:HEADER_FIELDS", "castbed.records:RECORD_FIELDS"])
def test_the_tables_of_fields_are_the_format(reference: str) -> None:
    rows, offset = [], 0
    for name, code, about in found(reference):
        rows.append([f"`{name}`", str(offset), str(calcsize(">" + code)), about])
        offset += calcsize(">" + code)
    assert tables(CAPTURES, "fields")[reference] == rows
    assert f"{offset} bytes" in CAPTURES.read_text(encoding="utf-8")


def test_the_tables_of_kinds_details_and_interfaces_are_the_format() -> None:
    assert [row[:2] for row in table(CAPTURES, "kinds")] == [[str(kind.value), kind.name] for kind in Kind]
    assert [row[0].strip("`") for row in table(CAPTURES, "detail")] == list(Detail.__struct_fields__)
    listed = [[str(at), f"`{name}`", str(link)] for at, (name, link) in enumerate(INTERFACES)]
    assert [row[:3] for row in table(CAPTURES, "interfaces")] == listed


# --- properties ------------------------------------------------------------------------------------------------------


def test_every_property_is_defined_with_all_its_kinds() -> None:
    defined = sections(PROPERTIES, 3)
    assert sorted(defined) == sorted(check.name for check in CHECKS)
    for check in CHECKS:
        said = re.findall(r"Kinds?: ([^.]*)\.?", (check.violations.__doc__ or "").replace("\n", " "))
        kinds = re.findall(r"`([a-z-]+)`", " ".join(said))
        assert kinds, check.name
        assert [kind for kind in kinds if f"`{kind}`" not in defined[check.name]] == [], check.name


# --- the command line ------------------------------------------------------------------------------------------------


def test_every_command_has_a_section_that_lists_its_options() -> None:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    described = sections(COMMANDS, 2)
    assert list(described) == list(commands)
    for name, command in commands.items():
        options = {spelling for parameter in command.params for spelling in parameter.opts if spelling.startswith("--")}
        documented = set(re.findall(r"^\| `(--[a-z-]+)`", described[name], re.M)) | {"--help"}
        documented |= set(re.findall(r"\(or `(--[a-z-]+)`\)", described[name]))
        unknown = documented - options - {"--help", "--no-captures"}
        assert (options - documented, unknown) == (set(), set()), name


def test_the_summary_is_described_key_by_key(tmp_path: Path) -> None:
    outcome = run_experiment(load_file(EXAMPLE), load_registry(), tmp_path / "run")
    documented = {key for row in table(COMMANDS, "summary") for key in re.findall(r"`(\w+)`", row[0])}
    assert documented == outcome.summary.keys() | {"directory"}


def test_the_experiment_of_the_reference_is_the_one_that_is_read() -> None:
    documented = [row[0].strip("`") for row in tables(EXPERIMENTS, "keys")["castbed_testbed.experiment:Experiment"]]
    assert documented == list(Experiment.__struct_fields__)
