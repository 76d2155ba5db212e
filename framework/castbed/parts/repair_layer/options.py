"""How eager the repair layer is, and how much it keeps for others."""

from __future__ import annotations

import msgspec

from castbed.units import ByteSize, Duration

_MAY_BE_NOTHING = ("fifo",)


class RepairOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an experiment may say under `repair`."""

    fifo: bool = False
    """Hand up the packets of each writer in the order of their numbers."""
    ask_delay: Duration = Duration(20 * 10**6)
    """Longest wait between noticing a gap and asking; copies that overtook each other have this long to arrive."""
    ask_interval_max: Duration = Duration(10**9)
    """Between two asks in vain; the wait doubles up to this."""
    resend_delay: Duration = Duration(5 * 10**6)
    """The writer resends within this time, others wait at least this long and at most four times as long."""
    heartbeat: Duration = Duration(100 * 10**6)
    """From a node's last packet to the first heartbeat, which shows others that they miss it."""
    heartbeat_max: Duration = Duration(10**9)
    """Between two heartbeats of a node at rest; the wait doubles up to this."""
    give_up_after: Duration = Duration(30 * 10**9)
    """A packet that was asked for in vain for this long is skipped, and the skip is noted."""
    history_max: int = 4_096
    """Packets that a node keeps for others, its own included; the oldest go first."""
    history_bytes_max: ByteSize = ByteSize(4 * 2**20)
    """The same in bytes of payload and control information."""
    waiting_max: int = 1_024
    """Packets of one writer that wait for their turn under `fifo`; what comes beyond that is asked for again later."""

    @property
    def gives(self) -> tuple[str, ...]:
        """What a protocol above need not ask of the network any more (keys of NEEDS)."""
        return ("reliable_air", "fifo_air") if self.fifo else ("reliable_air",)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name not in _MAY_BE_NOTHING and getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be positive")
