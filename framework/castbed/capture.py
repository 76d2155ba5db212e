"""The capture of one node: the frames that it sent and received, and its local events, in one pcapng file.

A capture has one section, whose comment is a JSON document that names the run and the node, and always the same three
interfaces: `air` and `wire` hold Ethernet frames, `events` holds records. Only whole blocks are written, so that the
file can be read at any time, also after its writer was killed. Nothing in it depends on the machine or on the time of
day: equal runs leave equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Any, Literal, NamedTuple

import msgspec

from castbed import pcapng
from castbed.errors import ConfigurationError, PeerError
from castbed.history import History, LocalEvent, RunIdentity
from castbed.records import (
    RECORD_BYTES,
    RECORD_CODES,
    decode_event,
    encode_event,
    has_detail,
    record_values,
    unencodable,
)
from castbed.values import NodeNumber
from castbed.wire import ETHERNET_BYTES, ETHERTYPE, HAS_MID, HEADER, HEADER_BYTES, MAGIC

FORMAT = 1
AIR, EVENTS, WIRE = 0, 1, 2
INTERFACES = (
    ("air", pcapng.LINKTYPE_ETHERNET),
    ("events", pcapng.LINKTYPE_USER0),
    ("wire", pcapng.LINKTYPE_ETHERNET),
)
FLUSH_BYTES = 256 * 1024  # what a node's writer keeps in memory at most, plus one block
SUFFIX = ".pcapng"

# --- blocks: what hosts build once per frame or event and append to captures -----------------------------------------

_PACKET_HEAD = Struct("<IIIIIII")
_PACKET_BYTES = _PACKET_HEAD.size + 4
_LENGTH = Struct("<I")
_TIME = Struct("<II")
_LOW = 0xFFFF_FFFF


def _flags(direction: int) -> tuple[bytes, ...]:
    """Padding and options of a frame by its size modulo 4."""
    flags = pcapng.option(pcapng.PACKET_FLAGS, _LENGTH.pack(direction)) + pcapng.option(pcapng.END_OF_OPTIONS, b"")
    return tuple(pcapng.padding(size) + flags for size in range(4))


_FLAGS = (_flags(pcapng.INBOUND), _flags(pcapng.OUTBOUND))
_FLAGS_BYTES = len(_FLAGS[0][0])

# The records are big-endian in a little-endian file: what is constant around them is packed as ready-made bytes.
_PLAIN_BYTES = _PACKET_BYTES + RECORD_BYTES
_PLAIN_START = Struct("<III").pack(pcapng.ENHANCED_PACKET, _PLAIN_BYTES, EVENTS)
_PLAIN_SIZES = Struct("<II").pack(RECORD_BYTES, RECORD_BYTES)
_PLAIN_END = _LENGTH.pack(_PLAIN_BYTES)
_PLAIN = Struct(">8s" + RECORD_CODES + "4s")


EVENT_NODE_OFFSET = _PACKET_HEAD.size + Struct(">HBB").size  # where the block of an event names its node


def frame_block(interface: int, at: int, ethernet: bytes, outgoing: bool) -> bytes:
    """The block of one frame, on AIR or WIRE."""
    size = len(ethernet)
    total = size + (-size & 3) + _PACKET_BYTES + _FLAGS_BYTES
    return (
        _PACKET_HEAD.pack(pcapng.ENHANCED_PACKET, total, interface, at >> 32, at & _LOW, size, size)
        + ethernet
        + _FLAGS[outgoing][size & 3]
        + _LENGTH.pack(total)
    )


def event_block(event: LocalEvent) -> bytes:
    """The block of one local event."""
    at = event.at
    if has_detail(event):
        return _record_block(at, encode_event(event))
    try:
        time = _TIME.pack(at >> 32, at & _LOW)
        return _PLAIN_START + time + _PLAIN.pack(_PLAIN_SIZES, *record_values(event, 0), _PLAIN_END)
    except struct_error as error:
        raise unencodable(event, error) from None


def _record_block(at: int, record: bytes) -> bytes:
    size = len(record)
    total = size + (-size & 3) + _PACKET_BYTES
    head = _PACKET_HEAD.pack(pcapng.ENHANCED_PACKET, total, EVENTS, at >> 32, at & _LOW, size, size)
    return head + record + pcapng.padding(size) + _LENGTH.pack(total)


# --- writing ---------------------------------------------------------------------------------------------------------


@cache
def _application() -> str:
    return f"castbed {version('castbed')}"


@lru_cache(maxsize=1)
def _identity_text(identity: RunIdentity) -> str:
    """The identity as the rest of a JSON object: the same for all nodes of a run."""
    return json.dumps(msgspec.to_builtins(identity)).removeprefix("{")


def capture_header(identity: RunIdentity, node: NodeNumber) -> bytes:
    """Everything before the first packet: the section and its three interfaces."""
    document = f'{{"castbed": {FORMAT}, "node": {node}, {_identity_text(identity)}'
    section = pcapng.section_header(_application(), document)
    return section + b"".join(pcapng.interface_description(link_type, name) for name, link_type in INTERFACES)


class CaptureWriter:
    """Writes one node's capture; it holds no open file, because a simulation has hundreds of nodes."""

    def __init__(self, path: Path, identity: RunIdentity, node: NodeNumber) -> None:
        self.path = path
        self.pending: list[bytes] = []
        """What the next flush writes; a host that counts the bytes itself may append here directly."""
        self._bytes = 0
        path.write_bytes(capture_header(identity, node))

    def append(self, block: bytes) -> None:
        """Add a block that `frame_block` or `event_block` made."""
        self.pending.append(block)
        self._bytes += len(block)
        if self._bytes >= FLUSH_BYTES:
            self.flush()

    def frame(self, interface: int, at: int, ethernet: bytes, outgoing: bool) -> None:
        self.append(frame_block(interface, at, ethernet, outgoing))

    def event(self, event: LocalEvent) -> None:
        self.append(event_block(event))

    def flush(self) -> None:
        """Bring everything appended so far into the file."""
        if self.pending:
            with self.path.open("ab") as file:
                file.write(b"".join(self.pending))
            self.pending.clear()
            self._bytes = 0

    def close(self) -> None:
        """The last flush; the host calls it when the node's run ends."""
        self.flush()


# --- reading ---------------------------------------------------------------------------------------------------------

_MEDIA: dict[tuple[str, int], Literal["air", "wire"]] = {INTERFACES[AIR]: "air", INTERFACES[WIRE]: "wire"}
_EVENTS = INTERFACES[EVENTS]
_OURS = ETHERTYPE.to_bytes(2, "big") + MAGIC.to_bytes(2, "big")
_OURS_AT = ETHERNET_BYTES - 2


class CapturedFrame(NamedTuple):
    """A frame of ours as this node saw it; `data` begins with the Ethernet header."""

    at: int
    medium: Literal["air", "wire"]
    outgoing: bool
    data: bytes


class FrameHeader(NamedTuple):
    """The fields of `castbed.wire.HEADER_FIELDS`, in order."""

    magic: int
    version: int
    flags: int
    family: int
    kind: int
    group: int
    seqno: int
    sender: int
    origin: int
    incarnation: int
    control_bytes: int
    payload_bytes: int


class Capture:
    """One node's capture as it was read.

    `truncated` says that the file could not be read to its end; `problems` says in words what was left out. Events are
    kept; frames stay in the file, because the frames of all nodes of a large run are more than memory holds.
    """

    def __init__(self, path: Path, data: bytes, identity: RunIdentity, node: NodeNumber) -> None:
        self.path = path
        self.identity = identity
        self.node = node
        self.events: list[LocalEvent] = []
        self.problems: list[str] = []
        self.truncated = False
        self._size = len(data)
        self._section: pcapng.Section | None = None
        self._section_belongs = False
        self._read(data)

    @property
    def frames(self) -> Iterator[CapturedFrame]:
        """The frames of Castbed in file order, read while one iterates; what was appended since is not among them."""
        data = _content(self.path)[: self._size]
        for found in pcapng.Reader(data):
            section, interface, at, start, end, _ = found
            medium = _MEDIA.get(interface.what)
            if medium and _is_ours(data, start, end) and self._belongs(section):
                yield CapturedFrame(at, medium, pcapng.is_outbound(data, found), data[start:end])

    def _read(self, data: bytes) -> None:
        events, bad, foreign = self.events, list[str](), 0
        reader = pcapng.Reader(data)
        for section, interface, at, start, end, _ in reader:
            if not self._belongs(section):
                foreign += 1
            elif interface.what == _EVENTS:
                try:
                    events.append(self._event(data[start:end], at))
                except PeerError as error:
                    bad.append(str(error))
            elif interface.what not in _MEDIA or not _is_ours(data, start, end):
                foreign += 1
        self._explain(reader, bad, foreign)

    def _event(self, record: bytes, at: int) -> LocalEvent:
        event = decode_event(record, at)
        if event.node != self.node:
            raise PeerError(f"an event of node {event.node} in the capture of node {self.node}")
        return event

    def _belongs(self, section: pcapng.Section) -> bool:
        if section is not self._section:
            self._section = section
            self._section_belongs = identified(section) == (self.identity, self.node)
        return self._section_belongs

    def _explain(self, reader: pcapng.Reader, bad: list[str], foreign: int) -> None:
        self.truncated = bool(reader.problem)
        said = (
            (reader.problem, reader.problem),
            (reader.bad_blocks, f"{reader.bad_blocks} damaged blocks were skipped"),
            (bad, f"{len(bad)} event records were skipped, the first: {bad[0] if bad else ''}"),
            (foreign, f"{foreign} foreign frames were skipped"),
        )
        self.problems = [words for applies, words in said if applies]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from None


def _is_ours(data: bytes, start: int, end: int) -> bool:
    return data[start + _OURS_AT : start + _OURS_AT + 4] == _OURS and end - start >= ETHERNET_BYTES + HEADER_BYTES


def identified(section: pcapng.Section) -> tuple[RunIdentity, NodeNumber] | None:
    """The run and the node that the section's comments name; None for a section that is not of Castbed."""
    text = "".join(section.comments)
    try:
        document, _ = json.JSONDecoder().raw_decode(text, max(text.find('{"castbed":'), 0))
        header: dict[str, Any] = msgspec.convert(document, dict[str, Any])
        known, node = header.pop("castbed"), header.pop("node")
        identity = msgspec.convert(header, RunIdentity)
    except (ValueError, KeyError, RecursionError, msgspec.MsgspecError):
        return None
    return (identity, node) if known == FORMAT and isinstance(node, int) and node > 0 else None


def read_capture(path: Path) -> Capture:
    """Read one file as far as it can be read; ConfigurationError when it is no capture of Castbed at all."""
    data = _content(path)
    reader = pcapng.Reader(data)
    first = reader.first_section()
    found = identified(first) if first is not None else None
    if found is None:
        raise ConfigurationError(str(path), f"not a Castbed capture ({reader.problem or 'another program wrote it'})")
    return Capture(path, data, *found)


def read_captures(source: Path | Iterable[Path]) -> list[Capture]:
    """The captures of one run in order of node numbers; `source` is a run, its captures directory, or the files."""
    captures: dict[NodeNumber, Capture] = {}
    identity = None
    for path in _files(source):
        capture = read_capture(path)
        identity = identity or capture.identity
        if capture.identity != identity:
            raise ConfigurationError(str(path), "belongs to another run than the captures before it")
        if captures.setdefault(capture.node, capture) is not capture:
            raise ConfigurationError(str(path), f"a second capture of node {capture.node}")
    return [captures[node] for node in sorted(captures)]


def _files(source: Path | Iterable[Path]) -> list[Path]:
    if not isinstance(source, Path):
        return list(source)
    folder = source / "captures" if (source / "captures").is_dir() else source
    files = [folder] if folder.is_file() else sorted(folder.glob("*" + SUFFIX))
    if not files:
        raise ConfigurationError(str(source), f"no captures (*{SUFFIX}) here")
    return files


def merged(captures: Iterable[Capture]) -> History:
    """The history of a run: by time, then node; each node's events stay in the order of its file."""
    ordered = sorted(captures, key=lambda capture: capture.node)
    if not ordered:
        raise ConfigurationError("", "a history needs at least one capture")
    stamped: list[tuple[int, LocalEvent]] = []
    for capture in ordered:
        # A clock that was set back must not reorder a node's events: they count as of the latest time before them.
        stamped.extend(zip(accumulate((event.at for event in capture.events), max), capture.events, strict=True))
    stamped.sort(key=itemgetter(0))
    return History(ordered[0].identity, (event for _, event in stamped))


def read_history(source: Path | Iterable[Path]) -> History:
    """The history of a run. Who wants to report damaged files uses `read_captures` and `merged`."""
    return merged(read_captures(source))


# --- frames, without decoding them -----------------------------------------------------------------------------------


class FrameStatistics(msgspec.Struct):
    """Of the frames that a node sent; control bytes count only where a frame carries a message identity."""

    frames: int = 0
    message_frames: int = 0
    control_bytes: int = 0
    control_bytes_max: int = 0
    payload_bytes: int = 0

    def add(self, header: FrameHeader) -> None:
        """Count one frame."""
        self.frames += 1
        self.payload_bytes += header.payload_bytes
        if header.flags & HAS_MID:
            self.message_frames += 1
            self.control_bytes += header.control_bytes
            self.control_bytes_max = max(self.control_bytes_max, header.control_bytes)


def sent_headers(capture: Capture) -> Iterator[FrameHeader]:
    """The fixed header of each frame that the node sent; bodies stay undecoded."""
    for frame in capture.frames:
        if frame.outgoing:
            yield FrameHeader._make(HEADER.unpack_from(frame.data, ETHERNET_BYTES))


def frame_statistics(captures: Iterable[Capture]) -> FrameStatistics:
    """Sizes over all frames that the nodes of `captures` sent."""
    total = FrameStatistics()
    for capture in captures:
        for header in sent_headers(capture):
            total.add(header)
    return total
