"""The handshake of controller and node: who lacks the key proves nothing, and learns nothing that would."""

from __future__ import annotations

import pytest

from castbed import ContractError
from castbed.handshake import (
    CHALLENGE_BYTES,
    CONTROLLER,
    NODE,
    PROOF_BYTES,
    Handshake,
    HandshakeError,
    Session,
)

KEY, OTHER_KEY = b"the key of the experiment", b"the key of somebody else"


def ends(key: bytes = KEY, other: bytes = KEY) -> tuple[Handshake, Handshake]:
    return Handshake(CONTROLLER, key, b"c" * CHALLENGE_BYTES), Handshake(NODE, other, b"n" * CHALLENGE_BYTES)


def conversation() -> tuple[Session, Session]:
    controller, node = ends()
    proof, answer = controller.answer(node.hello()), node.answer(controller.hello())
    node.check(proof)
    controller.check(answer)
    return controller.session(), node.session()


def test_two_ends_with_the_key_believe_each_other_and_talk() -> None:
    controller, node = conversation()
    assert node.opened(controller.seal(b"go")) == b"go"
    assert node.opened(controller.seal(b"")) == b""
    assert controller.opened(node.seal(b"done")) == b"done"


def test_an_end_with_another_key_is_not_believed_by_either() -> None:
    controller, node = ends(other=OTHER_KEY)
    proof, answer = controller.answer(node.hello()), node.answer(controller.hello())
    assert len(proof) == PROOF_BYTES
    with pytest.raises(HandshakeError, match="does not have the key"):
        controller.check(answer)
    with pytest.raises(HandshakeError, match="does not have the key"):
        node.check(proof)


def test_what_an_end_said_itself_is_no_answer() -> None:
    controller, node = ends()
    own = controller.answer(node.hello())
    with pytest.raises(HandshakeError):
        controller.check(own)
    with pytest.raises(HandshakeError, match="repeats our own challenge"):
        controller.answer(controller.hello())


def test_an_answer_from_another_conversation_is_none_here() -> None:
    controller, node = ends()
    old = node.answer(controller.hello())
    again = Handshake(CONTROLLER, KEY, b"C" * CHALLENGE_BYTES)
    again.answer(node.hello())
    with pytest.raises(HandshakeError):
        again.check(old)


@pytest.mark.parametrize("hello", [b"", b"GET / HTTP/1.1\r\n", b"castbed-hello-0\n" + bytes(CHALLENGE_BYTES)])
def test_another_language_is_refused(hello: bytes) -> None:
    with pytest.raises(HandshakeError, match="does not speak"):
        ends()[0].answer(hello)


def test_no_message_passes_twice_changed_or_in_the_wrong_direction() -> None:
    controller, node = conversation()
    said = controller.seal(b"stop")
    with pytest.raises(HandshakeError):
        conversation()[0].opened(said)
    assert node.opened(said) == b"stop"
    with pytest.raises(HandshakeError):
        node.opened(said)
    changed = conversation()[1]
    with pytest.raises(HandshakeError):
        changed.opened(b"S" + said[1:])
    with pytest.raises(HandshakeError):
        changed.opened(b"short")


def test_no_session_without_a_proof() -> None:
    controller, node = ends()
    controller.answer(node.hello())
    with pytest.raises(ContractError):
        controller.session()
    with pytest.raises(ContractError):
        ends()[0].check(bytes(PROOF_BYTES))
    with pytest.raises(ContractError):
        Handshake(b"spectator", KEY, bytes(CHALLENGE_BYTES))
