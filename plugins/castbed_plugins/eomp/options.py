"""What can be set when running `eomp`; the defaults are the paper's, or those of the spec where the paper has none."""

from __future__ import annotations

import msgspec

from castbed import ByteSize, Duration

MILLISECOND = 10**6
WINDOW_MAX = 1024  # requests on their way of one host; more would fill the queue of its transmitter only
BATCH_MAX = 1024
BUNDLE_BYTES_MAX = 60_000  # of one bundle, which with its numbers has to fit a datagram
KIBIBYTE = 1024


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Timers, the two choices that the paper leaves open, and the limits of `repaired`, which `published` ignores."""

    request_timeout: Duration = Duration(25 * MILLISECOND)
    """T_REQ: after which a host repeats a request that was not acknowledged."""
    greet_timeout: Duration = Duration(25 * MILLISECOND)
    """T_GREET (R19)."""
    join_timeout: Duration = Duration(25 * MILLISECOND)
    """T_JOIN and T_LEAVE (R19)."""
    nack_period: Duration = Duration(1000 * MILLISECOND)
    """T_NACK: how often each host reports what it has."""
    sync_period: Duration = Duration(500 * MILLISECOND)
    """T_SYNC: how often coordinators tell each other what hosts reported."""
    listen_before_greetack: bool = False
    """Let hosts take group traffic in a new cell before they are registered there (R9); `repaired` always does."""
    cache_size: int = 0
    """Messages that a station keeps for answering NACKs itself; 0: none (R12). `published` only."""
    window: int = 16
    """Requests that a host may have on their way."""
    batch: int = 32
    """Messages that answer one report at most ..."""
    batch_bytes: ByteSize = ByteSize(64 * KIBIBYTE)
    """... and how many bytes, but always one message."""
    bundle_bytes: ByteSize = ByteSize(1200)
    """Of messages that wait until the window opens, how many bytes go as one request."""
    queue_max: int = 1024
    """Requests that a host keeps until they are acknowledged; it refuses more."""
    reorder_max: int = 1024
    """How far ahead of the next number of a group a host keeps messages."""
    buffer_max: int = 8192
    """Messages of a group that coordinators keep for members that lack them ..."""
    buffer_bytes_max: ByteSize = ByteSize(64 * KIBIBYTE * KIBIBYTE)
    """... and how many bytes; at either limit, nothing more is numbered in the group."""
    silence: Duration = Duration(5000 * MILLISECOND)
    """After which a member that reports nothing is expelled, once it keeps the buffers full."""
    beat: Duration = Duration(100 * MILLISECOND)
    """How often the leader of the log, and each coordinator to its stations, says at least something."""
    patience: Duration = Duration(400 * MILLISECOND)
    """After which a leader or a coordinator that says nothing is taken for dead."""
    retained: int = 512
    """Entries of the log that are kept for a core node that lags behind; who lags more gets the whole state."""

    def __post_init__(self) -> None:
        timers = (self.request_timeout, self.greet_timeout, self.join_timeout, self.nack_period, self.sync_period)
        if min(*timers, self.silence, self.beat, self.patience) < 1:
            raise ValueError("timeouts and periods must be positive")
        if self.cache_size < 0:
            raise ValueError("`cache_size` cannot be negative")
        if not 1 <= self.window <= WINDOW_MAX:
            raise ValueError(f"`window` has to be from 1 to {WINDOW_MAX}")
        if not 1 <= self.batch <= BATCH_MAX:
            raise ValueError(f"`batch` has to be from 1 to {BATCH_MAX}")
        if not 1 <= self.bundle_bytes <= BUNDLE_BYTES_MAX:
            raise ValueError(f"`bundle_bytes` has to be from 1 to {BUNDLE_BYTES_MAX}")
        if min(self.batch_bytes, self.queue_max, self.reorder_max, self.buffer_max, self.buffer_bytes_max) < 1:
            raise ValueError("limits must be positive")
        if self.retained < 1:
            raise ValueError("`retained` must be positive")
        if self.beat >= self.patience:
            raise ValueError("`patience` has to be longer than `beat`")
