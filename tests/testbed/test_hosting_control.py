"""Conversations between controller and nodes: with a key, only who has it is heard."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from testbed_support import probe, registry, say, script

from castbed.handshake import CONTROLLER, NODE, HandshakeError
from castbed_testbed.experiment import load
from castbed_testbed.hosting.control import LENGTH, Channel, Counted, Counts, Linked, Stop
from castbed_testbed.runner import run_experiment

KEY, OTHER_KEY = b"the key of the experiment", b"the key of somebody else"


async def _ends() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return (
        Channel(*await asyncio.open_unix_connection(sock=ours)),
        Channel(*await asyncio.open_unix_connection(sock=theirs)),
    )


def talk(conversation: Callable[[Channel, Channel], Awaitable[None]]) -> None:
    async def both() -> None:
        controller, node = await _ends()
        await conversation(controller, node)
        await controller.close()
        await node.close()

    asyncio.run(both())


async def _proved(controller: Channel, node: Channel, key: bytes = KEY) -> list[BaseException | None]:
    proofs = controller.authenticate(CONTROLLER, KEY), node.authenticate(NODE, key)
    return await asyncio.gather(*proofs, return_exceptions=True)


def test_ends_with_the_key_talk() -> None:
    async def conversation(controller: Channel, node: Channel) -> None:
        assert await _proved(controller, node) == [None, None]
        node.say(Linked(3))
        node.say(Counted(3, Counts(submitted=1)))
        controller.say(Stop())
        assert [await controller.hear(), await controller.hear()] == [Linked(3), Counted(3, Counts(submitted=1))]
        assert await node.hear() == Stop()

    talk(conversation)


def test_an_end_with_another_key_is_refused_by_either() -> None:
    async def conversation(controller: Channel, node: Channel) -> None:
        assert [type(problem) for problem in await _proved(controller, node, OTHER_KEY)] == [HandshakeError] * 2

    talk(conversation)


def test_who_hangs_up_proves_nothing() -> None:
    async def conversation(controller: Channel, node: Channel) -> None:
        await node.close()
        with pytest.raises(HandshakeError, match="went away"):
            await controller.authenticate(CONTROLLER, KEY)

    talk(conversation)


def test_what_others_say_ends_the_conversation() -> None:
    async def conversation(controller: Channel, node: Channel) -> None:
        await _proved(controller, node)
        forged = b"\x81\xa4type\xa4Stop" + bytes(16)
        controller._writer.write(LENGTH.pack(len(forged)) + forged)
        assert await node.hear() is None

    talk(conversation)


def test_a_run_with_a_key_proves_itself_and_shows_the_key_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs, authenticate = [], Channel.authenticate

    async def watched(channel: Channel, role: bytes, key: bytes) -> None:
        await authenticate(channel, role, key)
        proofs.append((role, key))

    monkeypatch.setattr(Channel, "authenticate", watched)
    (tmp_path / "the.key").write_bytes(KEY)
    key = {"file": str(tmp_path / "the.key")}
    data = probe(duration="500ms", drain="1s", key=key, workload=script(say("A", "0s")), transport={"name": "udp"})
    outcome = run_experiment(load(data), registry(), tmp_path / "run")
    assert outcome.summary["delivered"] == 2
    assert proofs == [(CONTROLLER, KEY)] * 3, "one for each process of a node, seen from here"
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if KEY in path.read_bytes()] == []
    assert KEY not in b"".join(os.environb.values()) + Path("/proc/self/cmdline").read_bytes()
