"""Castbed: ordered, reliable group communication among devices that move. This page is the menu for plugin authors."""

from castbed.application import Application, Setting
from castbed.context import Context
from castbed.declarations import (
    NEEDS,
    ApplicationPlugin,
    Check,
    Membership,
    NoOptions,
    Protocol,
    Transport,
    Variant,
    Workload,
)
from castbed.errors import CastbedError, ConfigurationError, ContractError, PeerError, UnavailableError
from castbed.events import (
    Asked,
    Attached,
    Detached,
    Event,
    Expired,
    Received,
    Started,
    Submitted,
    SubmittedTogether,
    ViewChanged,
)
from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.hookspecs import hookimpl
from castbed.intervals import IntervalSet
from castbed.machine import Machine, on
from castbed.packets import Command, Notice, Packet
from castbed.registry import Register, Registry, load_registry
from castbed.topology import Topology
from castbed.units import BitRate, ByteSize, Duration
from castbed.values import DEFAULT_GROUP, NOBODY, UNNUMBERED, Group, Message, Mid, NodeNumber, Number, View
from castbed.wire import Codec

__all__ = [
    "DEFAULT_GROUP",
    "NEEDS",
    "NOBODY",
    "UNNUMBERED",
    "Application",
    "ApplicationPlugin",
    "Asked",
    "Attached",
    "BitRate",
    "ByteSize",
    "CastbedError",
    "Check",
    "Codec",
    "Command",
    "ConfigurationError",
    "Context",
    "ContractError",
    "Detached",
    "Duration",
    "Event",
    "Expired",
    "Group",
    "History",
    "IntervalSet",
    "Kind",
    "LocalEvent",
    "Machine",
    "Membership",
    "Message",
    "Mid",
    "NoOptions",
    "NodeNumber",
    "Notice",
    "Number",
    "Packet",
    "PeerError",
    "Protocol",
    "Received",
    "Register",
    "Registry",
    "RunIdentity",
    "Setting",
    "Started",
    "Submitted",
    "SubmittedTogether",
    "Topology",
    "Transport",
    "UnavailableError",
    "Variant",
    "View",
    "ViewChanged",
    "Workload",
    "hookimpl",
    "load_registry",
    "on",
]
