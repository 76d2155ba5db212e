"""A million foreign, fuzzed and replayed frames at one node: none raises, none is delivered, memory stays flat.

    python benchmarks/hostile_frames.py [--frames 1000000] [--json]

Two receivers get every frame as it is on the air, each in front of a machine of `sb` that has delivered whatever its
peers said. One has a key: there the attacker makes checksums anew, and nothing passes. One has none: there checksums
stop what was changed, and only what was said before comes through to the machine, which has to know it. Besides, what
the seal costs per frame.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
import timeit
import tracemalloc
from hashlib import blake2b
from hmac import digest
from random import Random
from typing import Any

from castbed import Context, Mid, PeerError, Received
from castbed.actions import Deliver
from castbed.assembly import choose
from castbed.authentication import CODE_BYTES, Seal, SealedCodec
from castbed.topology import broadcast
from castbed_adapters.wifi.envelope import letter_bytes, read_letter
from castbed_plugins.sb import PROTOCOL
from castbed_plugins.sb.packets import Data

KEY = b"a key for this benchmark only"
RUN = b"this run"
KNOWN = 256  # frames that the attacker has heard
WARM_UP = 0.2  # of all frames, after which memory has to stay where it is
SIZES = (64, 256, 1400)
CODES_TIMED = 20_000


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


class Target:
    """One node; counts what came through to its machine and what that delivered."""

    passed = delivered = dropped = 0

    def __init__(self, key: bool) -> None:
        chosen = choose(PROTOCOL, "repaired")
        self.codec = chosen.codec(Seal(KEY) if key else None)
        topology = broadcast(("A", "B", "C"))
        self.machine = chosen.machine(Context(1, topology, Random(1)))

    def hear(self, data: bytes) -> None:
        try:
            packet, sender = self.codec.decode(read_letter(data).frame)
            self.passed += 1
            actions = self.machine.step(Received(packet, sender), 0)
        except PeerError:
            self.dropped += 1
        else:
            self.delivered += sum(isinstance(action, Deliver) for action in actions)


def attack(frames: int, key: bool) -> dict[str, Any]:
    random, target = Random(1), Target(key)
    writer = choose(PROTOCOL, "repaired").codec(Seal(KEY) if key else None)
    said = [writer.encode(Data(1, Mid(2, number), b"payload", None), 2) for number in range(1, KNOWN + 1)]
    for frame in said:
        target.hear(letter(frame))
    assert target.delivered == KNOWN, "the node has to hear its peers"
    target.passed = target.delivered = 0
    known = [letter(frame) for frame in said]
    tracemalloc.start()
    settled = 0
    start = time.perf_counter()
    for number in range(frames):
        if number == int(frames * WARM_UP):
            settled = tracemalloc.get_traced_memory()[0]
        target.hear(letter(hostile(random, said)) if key else hostile(random, known))
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
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    document = {
        "attacks": [attack(arguments.frames, key) for key in (True, False)],
        "costs": costs(),
        "memory_kib_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    if arguments.json:
        print(json.dumps(document))
    else:
        for row in (*document["attacks"], *document["costs"]):  # type: ignore[misc]
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    with_key, without = document["attacks"]  # type: ignore[misc]
    return 1 if with_key["passed"] or without["delivered"] else 0


if __name__ == "__main__":
    sys.exit(main())
