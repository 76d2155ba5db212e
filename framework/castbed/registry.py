"""What plugins declared, found by name. `load_registry` builds one; there is no global one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import pluggy

from castbed import hookspecs
from castbed.declarations import (
    NEEDS,
    ApplicationPlugin,
    Check,
    Membership,
    Protocol,
    Transport,
    Workload,
)
from castbed.errors import CastbedError, ConfigurationError
from castbed.packets import kind_of
from castbed.topology import MODELS
from castbed.wire import family_number

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from castbed.history import History
    from castbed.properties import Violation

ENTRY_POINT_GROUP = "castbed"
D = TypeVar("D", Protocol, Membership, Transport, Check, Workload, ApplicationPlugin)


class PluginProblem(msgspec.Struct, frozen=True):
    """A plugin that could not be used, and why."""

    plugin: str
    distribution: str
    problem: str


class Register(Generic[D]):
    """All declarations of one kind; hooks add to it."""

    def __init__(self, kind: str, declared_as: type[D]) -> None:
        self.kind = kind
        self._declared_as: type[D] = declared_as
        self.distribution = ""
        self._declared: dict[str, D] = {}
        self._distributions: dict[str, str] = {}

    def add(self, declaration: D) -> None:
        """Add one declaration; a name that is taken or a declaration that makes no sense is refused."""
        if not isinstance(declaration, self._declared_as):
            raise TypeError(f"expected a {self._declared_as.__name__}, got {type(declaration).__name__}")
        name = declaration.name
        if name in self._declared:
            raise ValueError(f"{self.kind} {name!r} exists already, from {self._distributions[name]}")
        _validate(declaration)
        self._declared[name] = declaration
        self._distributions[name] = self.distribution

    def get(self, name: str, path: str) -> D:
        """The declaration of this name; `path` is the configuration key that asked for it."""
        if name not in self._declared:
            known = ", ".join(sorted(self._declared)) or "none"
            raise ConfigurationError(path, f"there is no {self.kind} {name!r} (installed: {known})")
        return self._declared[name]

    def distribution_of(self, name: str) -> str:
        return self._distributions[name]

    def forget(self, names: set[str]) -> None:
        """Take back what a plugin added before it failed."""
        for name in names:
            self._declared.pop(name, None)
            self._distributions.pop(name, None)

    def names(self) -> set[str]:
        return set(self._declared)

    def __iter__(self) -> Iterator[D]:
        return iter(sorted(self._declared.values(), key=lambda declared: declared.name))

    def __contains__(self, name: str) -> bool:
        return name in self._declared


class Registry:
    """Everything that is installed: one register per kind of plugin, and the plugins that failed."""

    def __init__(self) -> None:
        self.protocols: Register[Protocol] = Register("protocol", Protocol)
        self.memberships: Register[Membership] = Register("membership", Membership)
        self.transports: Register[Transport] = Register("transport", Transport)
        self.checks: Register[Check] = Register("check", Check)
        self.workloads: Register[Workload] = Register("workload", Workload)
        self.applications: Register[ApplicationPlugin] = Register("application", ApplicationPlugin)
        self.problems: list[PluginProblem] = []

    def registers(self) -> Mapping[str, Register[Any]]:
        return {
            "castbed_protocols": self.protocols,
            "castbed_memberships": self.memberships,
            "castbed_transports": self.transports,
            "castbed_checks": self.checks,
            "castbed_workloads": self.workloads,
            "castbed_applications": self.applications,
        }

    def violations(self, history: History, names: Iterable[str], path: str) -> dict[str, list[Violation]]:
        """The history judged by the checks of these names; `path` is where the names were written."""
        return {name: self.checks.get(name, path).violations(history) for name in names}

    def add_plugin(self, name: str, plugin: object, distribution: str) -> None:
        """Let one plugin register what it has; if it fails, nothing of it stays and the problem is kept."""
        before = {hook: register.names() for hook, register in self.registers().items()}
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        try:
            manager.register(plugin, name)
            manager.check_pending()
            for hook, register in self.registers().items():
                register.distribution = distribution
                getattr(manager.hook, hook)(register=register)
        except (Exception, SystemExit) as error:  # whatever a third party's code raises must not break the others
            for hook, register in self.registers().items():
                register.forget(register.names() - before[hook])
            self.problems.append(PluginProblem(name, distribution, _said(error)))


def load_registry(extra: Mapping[str, object] | None = None, installed: bool = True) -> Registry:
    """Build a registry from the installed plugins and those in `extra` (name to module), in a stable order."""
    from castbed import builtin

    registry = Registry()
    registry.add_plugin("framework", builtin, "castbed")
    if installed:
        for point in _plugin_entry_points():
            _load_entry_point(registry, point)
    for name, plugin in (extra or {}).items():
        registry.add_plugin(name, plugin, name)
    return registry


def _plugin_entry_points() -> list[EntryPoint]:
    """The shipped plugins first, so that a third party's clash is reported as theirs."""
    from importlib.metadata import entry_points  # not above: it takes longer to import than all the rest

    found = entry_points(group=ENTRY_POINT_GROUP)
    return sorted(found, key=_shipped_first)


def _shipped_first(point: EntryPoint) -> tuple[bool, str, str]:
    distribution = _distribution_name(point)
    return distribution != "castbed", distribution, point.name


def _load_entry_point(registry: Registry, point: EntryPoint) -> None:
    distribution = _distribution_name(point)
    try:
        plugin = point.load()
    except (Exception, SystemExit) as error:  # an import may fail in any way
        registry.problems.append(PluginProblem(point.name, distribution, _said(error)))
        return
    registry.add_plugin(point.name, plugin, distribution)


def _distribution_name(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"


def _said(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    first = text[0] if text else ""
    return first if isinstance(error, CastbedError) and first else f"{type(error).__name__}: {first}"


def _validate(declaration: object) -> None:
    if isinstance(declaration, Protocol):
        _validate_protocol(declaration)
    elif isinstance(declaration, Membership | Transport):
        wanted = declaration.needs if isinstance(declaration, Membership) else declaration.offers
        _known_needs(declaration.name, wanted)


def _validate_protocol(protocol: Protocol) -> None:
    if protocol.model not in MODELS:
        raise ValueError(f"protocol {protocol.name!r}: model {protocol.model!r} is none of {', '.join(MODELS)}")
    if not protocol.variants:
        raise ValueError(f"protocol {protocol.name!r} declares no variant")
    for variant in protocol.variants.values():
        _known_needs(protocol.name, variant.needs)
    kinds = [kind_of(packet) for packet in protocol.packets]
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"protocol {protocol.name!r}: two packet types have the same kind (tag)")
    family_number(protocol.name)


def _known_needs(name: str, needs: frozenset[str]) -> None:
    unknown = sorted(needs - NEEDS.keys())
    if unknown:
        raise ValueError(f"{name!r} names {unknown[0]!r}, which is none of {', '.join(NEEDS)}")
