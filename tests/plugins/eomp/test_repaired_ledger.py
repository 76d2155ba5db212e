"""What the core agrees on: numbers, requests, members; the same on every node, whole in a snapshot."""

from __future__ import annotations

import pytest

from castbed import Message, Mid, PeerError
from castbed_plugins.eomp.repaired.bundles import bundled
from castbed_plugins.eomp.repaired.entries import (
    Entries,
    Expelled,
    Joined,
    Left,
    Requested,
    RequestedBundle,
    decoded,
    encoded,
)
from castbed_plugins.eomp.repaired.ledger import CHUNK_BYTES, Ledger, chosen
from castbed_plugins.eomp.repaired.packets import BundleNumbered, Numbered
from castbed_plugins.eomp.repaired.shelf import Shelf

G, A, B = 1, 11, 12


def request(number: int, life: int = 0, sender: int = A, group: int = G, payload: bytes = b"x") -> Requested:
    return Requested(group, Mid(sender, number, life), payload, None)


def bundle(first: int, last: int, life: int = 0, sender: int = A, group: int = G) -> RequestedBundle:
    """The requests from `first` to `last`, each of which says its number; the odd ones answer something."""
    mids = [Mid(sender, number, life) for number in range(first, last + 1)]
    parents = (Mid(B, number) if number % 2 else None for number in range(first, last + 1))
    return RequestedBundle(
        *bundled([Message(mid, group, b"%d" % mid.seqno, parent) for mid, parent in zip(mids, parents, strict=True)])
    )


def numbers(ledger: Ledger, *entries: Requested | RequestedBundle) -> list[int | None]:
    given = (ledger.apply(entry) for entry in entries)
    return [None if message is None else message.seq for message in given]


def test_a_request_is_numbered_once_and_in_the_order_of_its_sender() -> None:
    ledger = Ledger({G: (A, B)})
    entries = (request(1), request(1), request(3), request(2), request(3), request(2))
    assert numbers(ledger, *entries) == [1, None, None, 2, 3, None]
    assert ledger.is_old(Mid(A, 3))
    assert not ledger.is_old(Mid(A, 4))


def test_a_later_life_begins_with_its_first_request_and_ends_the_earlier_one() -> None:
    ledger = Ledger({G: (A,)})
    assert numbers(ledger, request(1), request(2, life=2), request(1, life=2), request(2)) == [1, None, 2, None]
    assert ledger.is_old(Mid(A, 9, 1))


def test_a_bundle_gets_consecutive_numbers_and_what_is_numbered_of_it_keeps_its_own() -> None:
    ledger = Ledger({G: (A, B)})
    assert numbers(ledger, bundle(1, 4), request(5), bundle(1, 4), bundle(7, 9)) == [1, 5, None, None]
    rest = ledger.apply(bundle(3, 8))
    assert isinstance(rest, BundleNumbered)
    assert (rest.seq, rest.number, rest.last) == (6, 6, Mid(A, 8))
    assert [(m.mid.seqno, m.payload, m.parent) for m in rest.messages()] == [
        (6, b"6", None),
        (7, b"7", Mid(B, 7)),
        (8, b"8", None),
    ]
    assert numbers(ledger, request(1, sender=B), bundle(1, 2, life=3)) == [9, 10]
    assert ledger.number == 11
    assert ledger.is_old(Mid(A, 2, 3))


def test_a_bundle_leaves_its_shelf_as_a_whole_and_is_lacked_as_a_whole() -> None:
    ledger = Ledger({G: (A, B)})
    numbers(ledger, bundle(1, 3), request(4), bundle(5, 6))
    shelf = ledger.shelf(G)
    assert (len(shelf), shelf.bytes) == (6, 6)
    assert [packet.seq for packet in shelf.lacked(0, 6, [(4, 4)])] == [1, 5]
    assert [packet.seq for packet in shelf.lacked(2, 5, ())] == [1, 4, 5]
    shelf.acknowledge(A, 6)
    shelf.acknowledge(B, 2)
    shelf.release()
    assert (len(shelf), shelf.slowest()) == (6, [B])
    shelf.acknowledge(B, 4)
    shelf.release()
    assert (len(shelf), shelf.bytes, sorted(shelf.kept)) == (2, 2, [5])


def test_every_group_counts_for_itself_and_a_message_says_what_the_others_had_before() -> None:
    ledger = Ledger({})
    made = [ledger.apply(request(at, group=group)) for at, group in enumerate((1, 2, 1, 3), start=1)]
    assert [(m.group, m.seq, m.number, m.before) for m in made if m is not None] == [
        (1, 1, 1, ()),
        (2, 1, 2, ((1, 1),)),
        (1, 2, 3, ((2, 1),)),
        (3, 1, 4, ((1, 2), (2, 1))),
    ]


def test_a_member_begins_where_the_log_has_its_joining_and_no_late_copy_brings_it_back() -> None:
    ledger = Ledger({G: (A,)})
    ledger.apply(request(1))
    ledger.apply(Joined(G, B, (0, 1)))
    assert ledger.member(G, B).start == 1  # type: ignore[union-attr]
    ledger.apply(request(2))
    ledger.apply(Joined(G, B, (0, 1)))
    assert ledger.member(G, B).start == 1  # type: ignore[union-attr]
    ledger.apply(Left(G, B, (0, 2)))
    ledger.apply(Joined(G, B, (0, 1)))
    assert ledger.member(G, B) is None
    assert ledger.stint(G, B) == (0, 2)


def test_only_the_stay_that_was_meant_is_ended_by_an_expulsion() -> None:
    ledger = Ledger({G: (A, B)})
    ledger.apply(Joined(G, B, (1, 1)))
    ledger.apply(Expelled(G, B, (0, 0)))
    assert ledger.member(G, B) is not None
    ledger.apply(Expelled(G, B, (1, 1)))
    assert ledger.member(G, B) is None
    assert set(ledger.shelf(G).acked) == {A}


def test_a_message_leaves_when_every_member_has_it() -> None:
    """E12."""
    ledger = Ledger({G: (A, B)})
    numbers(ledger, request(1), request(2), request(3))
    shelf = ledger.shelf(G)
    shelf.acknowledge(A, 3)
    shelf.acknowledge(B, 1)
    shelf.acknowledge(99, 0)
    shelf.release()
    assert (sorted(shelf.kept), shelf.bytes, shelf.slowest()) == ([2, 3], 2, [B])
    ledger.apply(Left(G, B, (0, 1)))
    shelf.release()
    assert (sorted(shelf.kept), shelf.bytes, shelf.slowest()) == ([], 0, [])


def test_a_report_of_more_than_was_sent_counts_as_what_was_sent() -> None:
    ledger = Ledger({G: (A,)})
    numbers(ledger, request(1))
    ledger.shelf(G).acknowledge(A, 1 << 40)
    assert ledger.shelf(G).acked == {A: 1}


def test_what_a_host_lacks_is_all_after_its_last_but_for_what_it_has_early() -> None:
    ledger = Ledger({G: (A,)})
    numbers(ledger, *(request(number) for number in range(1, 11)))
    lacked = ledger.shelf(G).lacked(2, 9, [(4, 5), (8, 8)])
    assert [message.seq for message in lacked] == [3, 6, 7, 9]


def test_a_batch_has_at_least_one_message_and_says_whether_there_are_more() -> None:
    ledger = Ledger({G: (A,)})
    numbers(ledger, *(request(number, payload=bytes(100)) for number in range(1, 6)))

    def batch(count: int, size: int) -> tuple[list[int], bool]:
        taken, more = chosen(ledger.shelf(G).lacked(0, 5, ()), count, size)
        return [message.seq for message in taken], more

    assert batch(3, 10_000) == ([1, 2, 3], True)
    assert batch(5, 10_000) == ([1, 2, 3, 4, 5], False)
    assert batch(5, 250) == ([1, 2], True)
    assert batch(5, 1) == ([1], True)


def test_a_snapshot_holds_all_and_comes_in_pieces() -> None:
    ledger = Ledger({G: (A, B), 2: (A,)})
    numbers(ledger, *(request(number, payload=bytes(40_000)) for number in range(1, 6)), request(1, 3, B, 2))
    ledger.apply(bundle(2, 4, 3, B, 2))
    ledger.apply(Left(2, A, (0, 1)))
    ledger.shelf(G).acknowledge(A, 4)
    chunks = ledger.snapshot()
    assert len(chunks) > 3
    assert max(map(len, chunks)) <= CHUNK_BYTES
    other = Ledger({})
    other.restore(chunks)
    assert other.snapshot() == chunks
    assert other.shelf(G).bytes == 200_000
    assert other.apply(request(6)) == ledger.apply(request(6))


def test_a_snapshot_that_is_none_is_the_mistake_of_who_sent_it() -> None:
    ledger = Ledger({G: (A,)})
    with pytest.raises(PeerError):
        ledger.restore((b"\x93nonsense",))
    assert ledger.member(G, A) is not None


@pytest.mark.parametrize("changed", [{"sent": 4}, {"released": 1}, {"kept": ()}, {"acked": {A: 4}}])
def test_a_snapshot_that_lacks_messages_is_the_mistake_of_who_sent_it(changed: dict[str, object]) -> None:
    ledger, other = Ledger({G: (A,)}), Ledger({G: (A, B)})
    numbers(ledger, *(request(number) for number in range(1, 4)))
    for name, value in changed.items():
        setattr(ledger.shelf(G), name, dict.fromkeys(value) if value == () else value)
    before = other.snapshot()
    with pytest.raises(PeerError, match="snapshot"):
        other.restore(ledger.snapshot())
    assert other.snapshot() == before


@pytest.mark.parametrize(
    "entry", [request(1), bundle(3, 5), Joined(G, A, (1, 2)), Left(G, A, (1, 3)), Expelled(G, A, (1, 2))]
)
def test_entries_survive_the_wire(entry: Entries) -> None:
    assert decoded(encoded(entry)) == entry


@pytest.mark.parametrize("data", [b"", b"\xff", encoded(Joined(G, A, (1, 2)))[:-1], b"\x94\x02\x01\x0b\x92\xff\x00"])
def test_bytes_that_are_no_entry_are_none(data: bytes) -> None:
    assert decoded(data) is None


def test_a_shelf_of_a_group_without_members_keeps_nothing() -> None:
    shelf = Shelf()
    shelf.put(Numbered(G, Mid(A, 1), b"x", None, 1, 1, ()))
    shelf.release()
    assert not shelf.kept
