"""Histories as text, for tests: a line is a moment, and sentences in one line (`;`) happen in one step.

    told('''
        A submits A1; A delivers A1
        B holds A2 for A1
        B delivers A1; B delivers A2
    ''')

Nodes have names of one letter. `everybody` lists who is in group 1 from the start. Sentences:

    A submits A2 after A1        B2 answers A1 (its parent)     A submits A1 to B C          A submits A1 in 2 (group 2)
    B delivers A1 as x           (an altered payload)           B delivers A2 after A1       B delivers A1 in 2
    B holds A2 for A1            B joins 2                      B leaves 2
    B crashes                    B restarts                     B restarts empty             (storage lost)
    B detaches                   B attaches                     B views 3 A B C              B views local 3 A B
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.values import Mid

STEP = 1_000_000  # a line is a millisecond
NAMES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")

_KINDS = {
    "submits": Kind.SUBMIT,
    "delivers": Kind.DELIVER,
    "holds": Kind.HOLD,
    "joins": Kind.JOIN,
    "leaves": Kind.LEAVE,
    "crashes": Kind.CRASH,
    "restarts": Kind.RESTART,
    "detaches": Kind.DETACH,
    "attaches": Kind.ATTACH,
    "views": Kind.VIEW,
}
_WITH_MESSAGE = ("submits", "delivers", "holds")


def node(name: str) -> int:
    """The number of the node of this name."""
    return NAMES.index(name) + 1


def mid(text: str) -> Mid:
    """`A1`, or `A1~2` of the second life of A."""
    body, _, life = text.partition("~")
    return Mid(node(body[0]), int(body[1:]), int(life or 0))


def told(story: str, everybody: str = "ABC", guarantees: tuple[str, ...] = ()) -> History:
    """The history that a story tells; everybody starts as a member of group 1 and gets it back at each restart."""
    identity = RunIdentity("story", names=NAMES, guarantees=guarantees)
    events: list[LocalEvent] = []
    for name in everybody:
        events += [LocalEvent(node(name), 0, Kind.START), LocalEvent(node(name), 0, Kind.JOIN, 1)]
    lines = [line.strip() for line in story.strip().splitlines()]
    for moment, line in enumerate(lines, start=1):
        for sentence in filter(None, (part.strip() for part in line.split(";"))):
            event = _sentence(sentence, moment * STEP)
            events.append(event)
            if event.kind == Kind.RESTART and sentence[0] in everybody:
                events.append(LocalEvent(event.node, event.at, Kind.JOIN, 1))
    return History(identity, events)


def _sentence(sentence: str, at: int) -> LocalEvent:
    who, verb, *words = sentence.split()
    event = LocalEvent(node(who), at, _KINDS[verb])
    if verb in _WITH_MESSAGE:
        return _about(event, words)
    if verb in ("joins", "leaves"):
        return msgspec.structs.replace(event, group=int(words[0]))
    if verb == "restarts":
        return msgspec.structs.replace(event, number=0 if words == ["empty"] else 1)
    if verb == "views":
        return _view(event, words)
    return event


def _about(event: LocalEvent, words: list[str]) -> LocalEvent:
    said: dict[str, list[str]] = {}
    current = said.setdefault("message", [])
    for word in words:
        if word in ("after", "to", "in", "as", "for"):
            current = said.setdefault(word, [])
        else:
            current.append(word)
    (message,) = said["message"]
    payload = said.get("as", [message])[0].encode()
    return msgspec.structs.replace(
        event,
        mid=mid(message),
        group=int(said.get("in", ["1"])[0]),
        parent=mid(said["after"][0]) if "after" in said else None,
        to=tuple(map(node, said["to"])) if "to" in said else None,
        waiting_for=tuple(map(mid, said.get("for", []))),
        size=len(payload),
        digest=crc32(payload),
    )


def _view(event: LocalEvent, words: list[str]) -> LocalEvent:
    local = words[0] == "local"
    number, *members = words[1:] if local else words
    return msgspec.structs.replace(event, group=1, number=int(number), members=tuple(map(node, members)), local=local)
