"""What plugins may register, and that whatever a plugin does wrong is reported and breaks nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from castbed import (
    ApplicationPlugin,
    Check,
    ConfigurationError,
    Machine,
    Membership,
    Packet,
    Protocol,
    Registry,
    Transport,
    Variant,
    Workload,
    hookimpl,
    hookspecs,
    load_registry,
)
from castbed.registry import PluginProblem
from installed import write_metadata


class Ping(Packet, frozen=True, tag=1):
    """Some packet."""


class Pong(Packet, frozen=True, tag=1):
    """Another packet, of the same kind by mistake."""


class Untagged(Packet, frozen=True):
    """A packet without a kind."""


PLAIN = Variant({"member": Machine}, frozenset({"air"}), ("fifo",))
GOOD = Protocol("good", "A protocol that is as it should be", "broadcast", (Ping,), {"published": PLAIN})


def changed(**fields: Any) -> Protocol:
    """The good protocol with something else in it."""
    return msgspec.structs.replace(GOOD, **fields)


def plugin(**declared: Any) -> ModuleType:
    """A plugin module: `plugin(protocols=[...])` implements castbed_protocols so that it adds each of the list."""
    module = ModuleType("plugin")
    for kind, declarations in declared.items():
        setattr(module, f"castbed_{kind}", hookimpl(adder(declarations)))
    return module


def adder(declarations: list[Any]) -> Any:
    def add_all(register: Any) -> None:
        for declaration in declarations:
            register.add(declaration)

    return add_all


def loaded(**plugins: ModuleType) -> Registry:
    """A registry of these plugins and the framework alone."""
    return load_registry(extra=plugins, installed=False)


def only_problem(registry: Registry) -> PluginProblem:
    assert len(registry.problems) == 1
    return registry.problems[0]


# --- what works ------------------------------------------------------------------------------------------------------


def test_the_framework_registers_itself_like_any_plugin() -> None:
    registry = loaded()
    assert registry.memberships.distribution_of("static") == "castbed"
    assert registry.problems == []


def test_everything_that_ships_loads() -> None:
    assert [problem for problem in load_registry().problems if problem.distribution == "castbed"] == []


def test_each_kind_of_plugin_has_its_hook_and_its_register() -> None:
    everything = plugin(
        protocols=[GOOD],
        memberships=[Membership("m", "")],
        transports=[Transport("t", "", frozenset({"air"}), "module:run")],
        checks=[Check("c", "", lambda history: [])],
        workloads=[Workload("w", "", lambda setting, options: None)],  # type: ignore[arg-type, return-value]
        applications=[ApplicationPlugin("a", "", lambda setting, options: None)],  # type: ignore[arg-type, return-value]
    )
    registry = loaded(everything=everything)
    assert registry.problems == []
    assert registry.protocols.get("good", "") is GOOD
    assert {register.distribution_of(name) for name, register in found(registry)} == {"everything"}


def found(registry: Registry) -> list[tuple[str, Any]]:
    """What the plugin above registered."""
    registers = registry.registers().values()
    return list(zip(("good", "m", "t", "c", "w", "a"), registers, strict=True))


def test_every_register_has_exactly_one_hook() -> None:
    specified = {name for name in vars(hookspecs) if name.startswith("castbed_")}
    assert set(Registry().registers()) == specified


def test_declarations_come_in_the_order_of_their_names() -> None:
    registry = loaded(p=plugin(protocols=[changed(name=name) for name in ("zeta", "alpha", "mu")]))
    assert [protocol.name for protocol in registry.protocols] == ["alpha", "mu", "zeta"]


def test_the_repaired_variant_is_the_default_and_the_first_one_otherwise() -> None:
    assert GOOD.default_variant == "published"
    assert changed(variants={"published": PLAIN, "repaired": PLAIN}).default_variant == "repaired"
    assert changed(variants={"fast": PLAIN, "slow": PLAIN}).default_variant == "fast"


def test_an_unknown_name_is_a_configuration_error_that_lists_the_known_ones() -> None:
    registry = loaded(p=plugin(protocols=[GOOD, changed(name="better")]))
    with pytest.raises(ConfigurationError) as caught:
        registry.protocols.get("best", "protocol.name")
    assert str(caught.value) == "protocol.name: there is no protocol 'best' (installed: better, good)"
    assert (caught.value.path, caught.value.exit_code) == ("protocol.name", 2)


def test_where_nothing_is_installed_the_error_says_none() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no workload 'x' \(installed: none\)"):
        loaded().workloads.get("x", "workload.kind")


def test_two_registries_share_nothing() -> None:
    assert "good" in loaded(p=plugin(protocols=[GOOD])).protocols
    assert "good" not in loaded().protocols


# --- declarations that make no sense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "declaration", "said"),
    [
        pytest.param("protocols", changed(model="lunar"), "model 'lunar' is none of broadcast, cellular", id="model"),
        pytest.param("protocols", changed(variants={}), "'good' declares no variant", id="no variant"),
        pytest.param(
            "protocols",
            changed(variants={"published": msgspec.structs.replace(PLAIN, needs=frozenset({"luck"}))}),
            "'good' names 'luck', which is none of air, wire",
            id="needs",
        ),
        pytest.param("protocols", changed(packets=(Ping, Pong)), "two packet types have the same kind", id="kinds"),
        pytest.param("protocols", changed(packets=(Untagged,)), "Untagged needs a kind", id="no kind"),
        pytest.param("memberships", Membership("m", "", needs=frozenset({"luck"})), "'m' names 'luck'", id="member"),
        pytest.param("transports", Transport("t", "", frozenset({"luck"}), "m:f"), "'t' names 'luck'", id="transport"),
        pytest.param("protocols", Membership("m", ""), "expected a Protocol, got Membership", id="wrong register"),
        pytest.param("checks", object(), "expected a Check, got object", id="no declaration"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_reported(kind: str, declaration: Any, said: str) -> None:
    registry = loaded(odd=plugin(**{kind: [declaration]}))
    problem = only_problem(registry)
    assert (problem.plugin, problem.distribution) == ("odd", "odd")
    assert said in problem.problem
    assert len(registry.registers()[f"castbed_{kind}"].names()) == len(loaded().registers()[f"castbed_{kind}"].names())


# --- plugins that fail -----------------------------------------------------------------------------------------------


def test_a_taken_name_is_reported_and_stays_with_the_first() -> None:
    registry = loaded(first=plugin(protocols=[GOOD]), second=plugin(protocols=[changed(summary="an impostor")]))
    assert registry.protocols.get("good", "") is GOOD
    assert registry.protocols.distribution_of("good") == "first"
    problem = PluginProblem("second", "second", "ValueError: protocol 'good' exists already, from first")
    assert only_problem(registry) == problem


def test_nothing_stays_of_a_plugin_that_fails_half_way() -> None:
    half = plugin(
        protocols=[changed(name="before")], memberships=[Membership("below", "")], checks=[Membership("late", "")]
    )
    registry = loaded(half=half, other=plugin(protocols=[GOOD]))
    assert registry.protocols.names() == {"good"}
    assert "below" not in registry.memberships
    assert only_problem(registry).plugin == "half"


def test_a_hook_of_a_name_that_does_not_exist_is_reported() -> None:
    registry = loaded(typo=plugin(protocol=[GOOD]))
    assert "castbed_protocol" in only_problem(registry).problem
    assert "good" not in registry.protocols


def test_a_hook_with_wrong_arguments_is_reported() -> None:
    module = ModuleType("plugin")
    module.castbed_protocols = hookimpl(lambda register, more: None)  # type: ignore[attr-defined]
    assert only_problem(loaded(greedy=module)).plugin == "greedy"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(RuntimeError("first line\nsecond line"), "RuntimeError: first line", id="error"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="exit"),
    ],
)
def test_whatever_a_hook_raises_is_reported_in_one_line(error: BaseException, said: str) -> None:
    def raises(register: Any) -> None:  # noqa: ARG001 (hooks match by name)
        raise error

    module = ModuleType("plugin")
    module.castbed_checks = hookimpl(raises)  # type: ignore[attr-defined]
    assert only_problem(loaded(loud=module)).problem == said


# --- plugins that are installed --------------------------------------------------------------------------------------

PLUGIN_SOURCE = """
from castbed import Membership, hookimpl

@hookimpl
def castbed_memberships(register):
    register.add(Membership({name!r}, ""))
"""

TRANSPORT_SOURCE = """
from castbed import Transport, hookimpl

@hookimpl
def castbed_transports(register):
    register.add(Transport("sim", "", frozenset(), "module:run"))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the search path; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


def put(site: Path, distribution: str, module: str, source: str) -> None:
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    write_metadata(site, distribution, "1.0", {module: module})


def from_outside(registry: Registry) -> list[PluginProblem]:
    return [problem for problem in registry.problems if problem.distribution != "castbed"]


def test_an_installed_plugin_is_found_by_its_entry_point(site: Path) -> None:
    put(site, "outside-one", "outside_one", PLUGIN_SOURCE.format(name="outer"))
    registry = load_registry()
    assert registry.memberships.distribution_of("outer") == "outside-one"
    assert "outer" not in load_registry(installed=False).memberships


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("import no_such_module_anywhere", "ModuleNotFoundError: No module named", id="import"),
        pytest.param("this is no python", "SyntaxError: invalid syntax", id="syntax"),
        pytest.param("raise SystemExit(3)", "SystemExit: 3", id="exit"),
        pytest.param("from castbed import PeerError\nraise PeerError('not today')", "not today", id="ours"),
        pytest.param("raise ValueError", "ValueError: ", id="silent"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_reported(site: Path, source: str, said: str) -> None:
    put(site, "outside-bad", "outside_bad", source)
    put(site, "outside-good", "outside_good", PLUGIN_SOURCE.format(name="outer"))
    registry = load_registry()
    (problem,) = from_outside(registry)
    assert (problem.plugin, problem.distribution) == ("outside_bad", "outside-bad")
    assert problem.problem.startswith(said)
    assert "outer" in registry.memberships


def test_an_entry_point_that_names_no_module_is_reported(site: Path) -> None:
    write_metadata(site, "outside-empty", "1.0", {"empty": "there_is_no_such_module"})
    assert [problem.plugin for problem in from_outside(load_registry())] == ["empty"]


def test_distributions_are_loaded_in_the_order_of_their_names(site: Path) -> None:
    put(site, "outside-z", "outside_first", PLUGIN_SOURCE.format(name="outer"))
    put(site, "outside-a", "outside_second", PLUGIN_SOURCE.format(name="outer"))
    registry = load_registry()
    assert registry.memberships.distribution_of("outer") == "outside-a"
    assert [problem.distribution for problem in from_outside(registry)] == ["outside-z"]


def test_what_ships_is_loaded_first_so_that_a_clash_is_blamed_on_the_other(site: Path) -> None:
    put(site, "aaa-outside", "aaa_outside", TRANSPORT_SOURCE)
    registry = load_registry()
    assert registry.transports.distribution_of("sim") == "castbed"
    assert [problem.distribution for problem in from_outside(registry)] == ["aaa-outside"]


def test_modules_given_by_a_test_come_last(site: Path) -> None:
    put(site, "outside-one", "outside_one", PLUGIN_SOURCE.format(name="outer"))
    registry = load_registry(extra={"extra": plugin(memberships=[Membership("outer", "")])})
    assert [problem.plugin for problem in from_outside(registry)] == ["extra"]
