"""All strategies by name, and the mix in which they are tried by default."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from castbed.errors import ConfigurationError
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.exhaustive import Exhaustive
from castbed_testbed.explore.freedoms import COMMANDS
from castbed_testbed.explore.guided import Guided
from castbed_testbed.explore.late import LateCopy
from castbed_testbed.explore.membership import Membership
from castbed_testbed.explore.strategies import SIMPLE, Strategy

MIX, EXHAUSTIVE = "mix", "exhaustive"
STRATEGIES: Mapping[str, type[Strategy]] = {
    **SIMPLE,
    "membership": Membership,
    "late-copy": LateCopy,
    "guided": Guided,
    EXHAUSTIVE: Exhaustive,
}
SHARES: tuple[str, ...] = (
    "slow-channel", "membership", "random", "handoffs", "membership", "delays", "priorities", "membership", "guided",
    EXHAUSTIVE,
)  # fmt: skip
"""The strategies of consecutive batches of the mix."""


def check_strategy(name: str) -> str:
    """The name, if a strategy has it."""
    if name != MIX and name not in STRATEGIES:
        raise ConfigurationError("--strategy", f"there is no {name!r} (there are: {', '.join((MIX, *STRATEGIES))})")
    return name


def chosen_strategy(wanted: str, number: int, arena: Arena) -> str:
    """The strategy of the batch of this number; the mix has none about memberships where users have no commands."""
    if wanted != MIX:
        return wanted
    name = SHARES[number % len(SHARES)]
    return name if name != "membership" or COMMANDS in arena.freedoms else "slow-channel"


def strategy_of(name: str, arena: Arena, random: Random) -> Strategy:
    return STRATEGIES[name](arena, random)
