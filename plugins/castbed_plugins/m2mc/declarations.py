"""What the plugin declares: the protocol with its two variants, GJLP as a membership, the chat."""

from __future__ import annotations

from castbed import ApplicationPlugin, Membership, Protocol, Variant
from castbed.parts import AntiEntropy
from castbed_plugins.m2mc.chat import Chat, ChatOptions
from castbed_plugins.m2mc.commands import COMMANDS, GJLP_COMMANDS
from castbed_plugins.m2mc.gjlp import Gjlp
from castbed_plugins.m2mc.group_manager import GroupManager
from castbed_plugins.m2mc.options import M2mcOptions, RosterOptions
from castbed_plugins.m2mc.packets import GJLP_PACKETS, ROSTER_PACKETS, Data, Roster, SyncReq, SyncResp
from castbed_plugins.m2mc.repaired import RepairedGroupManager
from castbed_plugins.m2mc.roster import RosterGjlp

CLAIMED = (
    "integrity",  # M2-S9, S14
    "no_duplication",  # M2-S9, S10
    "agreement",  # M2-S10, S11
    "validity",  # SB-S6, S10
    "semantic",  # M2-S8
    "liveness",  # M2-S8 (SB-S6), S10
    "no_needless_wait",  # M2-S8 (SB-S4, SB-S5)
    "recovery",  # M2-S10, S11
    "convergent_views",  # M2-S4, S5, S6
)
KEPT = (*CLAIMED, "self_inclusion", "view_monotonicity")  # M2-R12
AS_PUBLISHED = frozenset({"air", "reliable_air", "own_copy", "no_crash"})

PROTOCOL = Protocol(
    name="m2mc",
    summary="Middleware for groups on one broadcast medium: discovery, joining, S_B order, recovery",
    model="broadcast",
    paper="M2MC: middleware for many-to-many communication over broadcast networks",
    packets=(*GJLP_PACKETS, Data, SyncReq, SyncResp, Roster, *AntiEntropy.PACKETS),
    options=M2mcOptions,
    commands=COMMANDS,
    membership="gjlp",
    exercise={
        "topology": {"groups": {}},
        "application": {"name": "chat"},
        "workload": {"kind": "m2mc-churn"},
    },
    variants={
        "repaired": Variant(
            {"member": RepairedGroupManager},
            frozenset({"air"}),
            KEPT,
            "Rosters that converge, digests instead of whole logs, identities that are never used twice",
        ),
        "published": Variant({"member": GroupManager}, AS_PUBLISHED, CLAIMED, "GJLP, MOP and MSP as in the paper"),
    },
)

MEMBERSHIPS = (
    Membership(
        "gjlp",
        "Groups that processes create, discover, join and leave; local views that converge",
        RosterGjlp,
        ROSTER_PACKETS,
        GJLP_COMMANDS,
        RosterOptions,
        frozenset({"air"}),
    ),
    Membership(
        "gjlp-published",
        "GJLP as in the M2MC paper; local views",
        Gjlp,
        GJLP_PACKETS,
        GJLP_COMMANDS,
        needs=AS_PUBLISHED,
    ),
)

CHAT = ApplicationPlugin(
    "chat", "Threaded Chat without windows: joins offered groups, keeps threads", Chat, ChatOptions
)
