"""A million foreign, fuzzed and replayed frames at one node: none raises, none is delivered, memory stays flat.

    python benchmarks/hostile_frames.py [--frames 1000000] [--sockets | --remade] [--seconds 600] [--json]

Two receivers get every frame as it is on the air, each in front of a machine of `sb` that has delivered whatever its
peers said. With --sockets the frames come as datagrams on loopback, and the node reads them from its socket; an attack
ends after --seconds, whatever it has sent by then.

One has a key: there the attacker makes checksums anew, and nothing passes. One has none: there checksums
stop what was changed, and only what was said before comes through to the machine, which has to know it. Besides, what
the seal costs per frame.

With --remade there is no key and the attacker makes checksums anew: `hostile_runs` says how, for every protocol that
ships. Then whatever comes out of a node but a PeerError makes the command fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
import timeit
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from hmac import digest
from random import Random
from typing import Any

from hostile_runs import TARGETS
from hostile_runs import attack as attack_runs

from castbed import Context, Mid, PeerError, Received
from castbed.actions import Deliver
from castbed.assembly import Chosen, choose
from castbed.authentication import CODE_BYTES, Seal, SealedCodec
from castbed.links import SHARED_AIR, Arrival
from castbed.topology import broadcast
from castbed.wire import Codec
from castbed_adapters.udp.addresses import draw_groups, find_interface
from castbed_adapters.udp.air import DATAGRAM_BYTES_MAX, ENVELOPE, MAGIC, SLIP, VERSION, MulticastAir, checked
from castbed_adapters.wifi.envelope import letter_bytes, read_letter
from castbed_plugins.sb import PROTOCOL
from castbed_plugins.sb.packets import Data

KEY = b"a key for this benchmark only"
RUN = b"this run"
KNOWN = 256  # frames that the attacker has heard
WARM_UP = 0.2  # of all frames, after which memory has to stay where it is
SIZES = (64, 256, 1400)
CODES_TIMED = 20_000
GROWN_BYTES_MAX = 16 * 1024  # what counters and caches of the interpreter take; to keep frames would take more
TURNS = 3  # of the event loop: a node that is woken reads one datagram, and more when it is woken again at once
SETTLED_S = 1.0  # for what still waits in the socket
RECEIVE_BUFFER = 4 * 2**20
AT_ONCE = 32  # datagrams that are sent before the node reads


def hostile(random: Random, known: list[bytes]) -> bytes:
    """A replay, a changed or cut frame, or noise."""
    fate = random.random()
    if fate < 0.1:
        return random.choice(known)
    if fate < 0.3:
        return random.randbytes(random.randrange(200))
    frame = bytearray(random.choice(known))
    for _ in range(random.randint(1, 4)):
        frame[random.randrange(len(frame))] = random.randrange(256)
    return bytes(frame) if fate < 0.8 else bytes(frame[: random.randrange(len(frame))])


def letter(frame: bytes) -> bytes:
    return letter_bytes(RUN, frame, 0, ())


def codec_of(chosen: Chosen, key: bool) -> Codec:
    return chosen.sealed_codec(Seal(KEY), 0, time.monotonic_ns) if key else chosen.codec()


class Target:
    """One node; counts what came through to its machine and what that delivered."""

    passed = delivered = dropped = 0

    def __init__(self, key: bool) -> None:
        chosen = choose(PROTOCOL, "repaired")
        self.codec = codec_of(chosen, key)
        topology = broadcast(("A", "B", "C"))
        self.machine = chosen.machine(Context(1, topology, Random(1)))

    def hear(self, data: bytes) -> None:
        try:
            frame = read_letter(data).frame
        except PeerError:
            self.dropped += 1
        else:
            self.take(frame)

    def take(self, frame: bytes) -> None:
        try:
            packet, sender = self.codec.decode(frame)
            self.passed += 1
            actions = self.machine.step(Received(packet, sender), 0)
        except PeerError:
            self.dropped += 1
        else:
            self.delivered += sum(isinstance(action, Deliver) for action in actions)


def prepared(key: bool) -> tuple[Target, list[bytes]]:
    """A node that has heard its peers, and what it has heard."""
    target, writer = Target(key), codec_of(choose(PROTOCOL, "repaired"), key)
    said = [writer.encode(Data(1, Mid(2, number), b"payload", None), 2) for number in range(1, KNOWN + 1)]
    for frame in said:
        target.take(frame)
    assert target.delivered == KNOWN, "the node has to hear its peers"
    target.passed = target.delivered = 0
    return target, said


def attack(frames: int, key: bool) -> dict[str, Any]:
    random, (target, said) = Random(1), prepared(key)
    known = [letter(frame) for frame in said]
    tracemalloc.start()
    settled = 0
    start = time.perf_counter()
    for number in range(frames):
        if number == int(frames * WARM_UP):
            settled = tracemalloc.get_traced_memory()[0]
        target.hear(letter(hostile(random, said)) if key else hostile(random, known))
    return outcome(target, key, frames, settled, start)


def outcome(target: Target, key: bool, frames: int, settled: int, start: float) -> dict[str, Any]:
    """What became of an attack."""
    grown = tracemalloc.get_traced_memory()[0] - settled
    tracemalloc.stop()
    counted = dict(target.codec.guard.dropped) if isinstance(target.codec, SealedCodec) else {}
    return {
        "key": key,
        "frames": frames,
        "dropped": target.dropped,
        "passed": target.passed,
        "delivered": target.delivered,
        "grown_bytes": grown,
        "seconds": round(time.perf_counter() - start, 1),
        "counted": counted,
    }


async def attack_on_sockets(frames: int, key: bool, seconds: float) -> dict[str, Any]:
    """The same as datagrams: with a key in envelopes of this run and with checksums made anew, else as they come."""
    random, (target, said) = Random(1), prepared(key)
    counters: Counter[str] = Counter()
    groups = draw_groups(find_interface("lo", 4), RUN)
    air = MulticastAir(1, RUN, groups, counters, DATAGRAM_BYTES_MAX, RECEIVE_BUFFER, True)
    air.open()
    air.tune(SHARED_AIR)

    def heard(arrivals: Sequence[Arrival]) -> None:
        for arrival in arrivals:
            target.take(arrival.frame)

    air.listen(heard)
    known = [datagram(frame) for frame in said]
    address = groups.reached_at(groups.of_cell(SHARED_AIR))
    tracemalloc.start()
    settled = sent = 0
    start = time.perf_counter()
    with groups.open_socket() as attacker:
        while sent < frames and time.perf_counter() - start < seconds:
            if not settled and sent >= int(frames * WARM_UP):
                settled = tracemalloc.get_traced_memory()[0]
            for _ in range(AT_ONCE):
                attacker.sendto(datagram(hostile(random, said)) if key else hostile(random, known), address)
            sent += AT_ONCE
            for _ in range(TURNS):
                await asyncio.sleep(0)
        await asyncio.sleep(SETTLED_S)
    row = outcome(target, key, sent, settled, start)
    air.close()
    return row | {"counted": row["counted"] | counters, "read": read(counters, target)}


def read(counters: Counter[str], target: Target) -> int:
    """How many datagrams the node has dealt with, but for those that seem to be its own; each holds one frame."""
    return sum(counters[name] for name in ("malformed", "foreign", "out_of_range")) + target.passed + target.dropped


def datagram(frame: bytes) -> bytes:
    return checked(ENVELOPE.pack(MAGIC, VERSION, RUN, 2, SHARED_AIR) + SLIP.pack(len(frame), 0) + frame)


def costs() -> list[dict[str, Any]]:
    """Microseconds per code, for the one in use and for HMAC-SHA256."""
    keyed, key, rows = blake2b(key=KEY, digest_size=CODE_BYTES), KEY, []
    for size in SIZES:
        data = bytes(size)

        def used(data: bytes = data) -> bytes:
            code = keyed.copy()
            code.update(data)
            return code.digest()

        times = [
            min(timeit.repeat(one, number=CODES_TIMED, repeat=3)) / CODES_TIMED * 1e6
            for one in (used, lambda data=data: digest(key, data, "sha256")[:CODE_BYTES])
        ]
        rows.append({"bytes": size, "blake2b_us": round(times[0], 2), "hmac_sha256_us": round(times[1], 2)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--sockets", action="store_true", help="through the socket of a node, on loopback")
    parser.add_argument("--remade", action="store_true", help="without a key, with checksums made anew, all protocols")
    parser.add_argument("--seconds", type=float, default=600, help="how long an attack on sockets takes at most")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.remade:
        return remade(arguments.frames, arguments.json)
    document = {
        "attacks": [attacked(arguments, key) for key in (True, False)],
        "costs": costs(),
        "memory_kib_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    if arguments.json:
        print(json.dumps(document))
    else:
        for row in (*document["attacks"], *document["costs"]):  # type: ignore[misc]
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    with_key, without = document["attacks"]  # type: ignore[misc]
    grown = max(with_key["grown_bytes"], without["grown_bytes"])
    return 1 if with_key["passed"] or without["delivered"] or grown > GROWN_BYTES_MAX else 0


def remade(frames: int, as_json: bool) -> int:
    """Frames that pass every checksum, shared out among the protocols; 1 if anything came of them but a PeerError."""
    share, more = divmod(frames, len(TARGETS))
    rows = [attack_runs(name, share + (at < more)) for at, name in enumerate(TARGETS)]
    if as_json:
        print(json.dumps({"remade": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    return 1 if any(row["problems"] for row in rows) else 0


def attacked(arguments: argparse.Namespace, key: bool) -> dict[str, Any]:
    if arguments.sockets:
        return asyncio.run(attack_on_sockets(arguments.frames, key, arguments.seconds))
    return attack(arguments.frames, key)


if __name__ == "__main__":
    sys.exit(main())
