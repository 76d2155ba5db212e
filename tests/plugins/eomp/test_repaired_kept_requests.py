"""What a repaired host keeps of its messages until they are numbered: together what came together, and no longer."""

from __future__ import annotations

from random import Random
from typing import Any

from eomp_bench import G
from repaired_bench import RepairedNet

from castbed import Context, Kind, Message, Mid, SubmittedTogether, topology
from castbed.actions import Persist
from castbed_plugins.eomp import Options
from castbed_plugins.eomp.repaired.host import PAYLOAD_BYTES_MAX
from castbed_plugins.eomp.repaired.kept_requests import KeptRequests


def kept(stored: dict[str, Any] | None = None, life: int = 0) -> KeptRequests:
    return KeptRequests(Context(7, topology.broadcast(("A",)), Random(1), life, stored))


def messages(*payloads: bytes) -> list[Message]:
    return [Message(group=G, payload=payload) for payload in payloads]


def together(net: RepairedNet, *submitted: Message) -> None:
    net.step("a", SubmittedTogether(list(submitted)))


def test_what_came_together_is_kept_together_and_forgotten_when_all_of_it_is_numbered() -> None:
    requests = kept()
    first, _ = requests.add(messages(b"x", b"y"))
    second, _ = requests.add(messages(b"z"))
    assert list(requests.forget(Mid(7, 1))) == []
    assert list(requests.forget(Mid(7, 2))) == [Persist(first.key, None)]
    assert list(requests.forget(Mid(7, 3))) == [Persist(second.key, None)]


def test_the_next_life_has_it_all_in_order_under_its_old_names_and_forgets_it_by_lives() -> None:
    stored: dict[str, Any] = {}
    for life in (0, 1):
        requests = kept(stored, life)
        for payloads in ((b"one", b"two"), (b"three",)):
            keep, _ = requests.add(messages(*payloads))
            stored[keep.key] = keep.value
    again = kept(stored, 2)
    mids = [Mid(7, number, life) for life in (0, 1) for number in (1, 2, 3)]
    assert [(message.mid, message.payload) for message in again.of_earlier_lives()] == list(
        zip(mids, [b"one", b"two", b"three"] * 2, strict=True)
    )
    assert len(list(again.forget(Mid(7, 3, 0)))) == 2
    assert len(list(again.forget(Mid(7, 2, 1)))) == 1
    assert len(list(again.forget(Mid(7, 1, 2)))) == 1


def test_a_host_that_restarts_asks_again_for_what_came_together_and_what_was_numbered_of_it_stays_so() -> None:
    net = RepairedNet(options=Options(window=1, bundle_bytes=4))
    net.submit("a", b"w")
    together(net, *messages(b"x", b"y", b"z"))
    net.settle_but("a~>M1 Request(a4)")
    assert [mid.seqno for mid in net.machines["a"].sent_at] == [4]
    net.lose()
    net.crash("a")
    net.start("a")
    assert [message.mid.seqno for message in net.machines["a"].kept.of_earlier_lives()] == [2, 3, 4]
    net.pass_time(5)
    net.all_have("w x y z", hosts="bc")
    assert net.broken() == {}


def test_of_messages_that_come_together_those_that_fit_are_taken() -> None:
    net = RepairedNet(options=Options(queue_max=3))
    large = Message(group=G, payload=bytes(PAYLOAD_BYTES_MAX + 1))
    together(net, *messages(b"x"), large, *messages(b"y"), Message(group=G, to=(8,)), *messages(b"z", b"too many"))
    fates = [event for event in net.events if event.kind in (Kind.REFUSE, Kind.SUBMIT)]
    assert [event.kind for event in fates].count(Kind.REFUSE) == 3
    assert any("3 messages wait already" in event.text for event in fates)
    net.settle()
    net.all_have("x y z")
