"""What a host reports when a run is over: the figures that no capture holds."""

from __future__ import annotations

import msgspec


class HostReport(msgspec.Struct, frozen=True):
    """Counters of one run. `events` is what the host processed, `effects` how often each fault took effect.

    `links` is what real links dropped, by reason.
    """

    submitted: int = 0
    delivered: int = 0
    frames: int = 0
    events: int = 0
    virtual_ns: int = 0
    dropped: int = 0
    oversize: int = 0
    effects: dict[str, int] = {}
    links: dict[str, int] = {}
