"""How the two ends of a connection prove to each other that they have the key, without ever sending it.

Each end says a random challenge; each answers with a code over both challenges and its own role, so that nothing said
in another conversation, and nothing that the other end said, is a right answer. From then on every message carries a
code over its number and its bytes with a key that only this conversation has. Sans-IO: bytes in, bytes out.

    ours = Handshake(CONTROLLER, key, os.urandom(CHALLENGE_BYTES))
    write(ours.hello()); write(ours.answer(read(HELLO_BYTES))); ours.check(read(PROOF_BYTES))
    session = ours.session()                      # session.seal(message), session.opened(sealed)
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from struct import Struct

from castbed.authentication import CODE_BYTES, derived_key
from castbed.errors import CastbedError, ContractError

CONTROLLER, NODE = b"controller", b"node"
CALLER, CALLED = b"caller", b"called"
_OTHER = {CONTROLLER: NODE, NODE: CONTROLLER, CALLER: CALLED, CALLED: CALLER}
CHALLENGE_BYTES = 32
PROOF_BYTES = 32
_START = b"castbed-hello-1\n"
HELLO_BYTES = len(_START) + CHALLENGE_BYTES
_NUMBER = Struct(">Q")


class HandshakeError(CastbedError):
    """The other end did not prove that it has the key; hang up."""


class Handshake:
    """One end of the proof. `challenge` has to be random: hosts take it from the operating system."""

    def __init__(self, role: bytes, key: bytes, challenge: bytes) -> None:
        if role not in _OTHER or len(challenge) != CHALLENGE_BYTES:
            raise ContractError(f"a handshake has a role and a challenge of {CHALLENGE_BYTES} bytes")
        self._role, self._key, self._challenge = role, key, challenge
        self._theirs: bytes | None = None
        self._proved = False

    def hello(self) -> bytes:
        """What this end says first."""
        return _START + self._challenge

    def answer(self, hello: bytes) -> bytes:
        """The proof for the other end's hello."""
        if len(hello) != HELLO_BYTES or not hello.startswith(_START):
            raise HandshakeError("the other end does not speak this version of Castbed's handshake")
        theirs = hello[len(_START) :]
        if theirs == self._challenge:
            raise HandshakeError("the other end repeats our own challenge")
        self._theirs = theirs
        return self._code(self._role)

    def check(self, proof: bytes) -> None:
        """Believe the other end, or raise HandshakeError."""
        if not compare_digest(proof, self._code(_OTHER[self._role])):
            raise HandshakeError("the other end does not have the key of this experiment")
        self._proved = True

    def session(self) -> Session:
        """What protects the conversation from now on."""
        if not self._proved:
            raise ContractError("no session before the other end has proved that it has the key")
        return Session(self._code(b"from " + self._role), self._code(b"from " + _OTHER[self._role]))

    def _code(self, purpose: bytes) -> bytes:
        if self._theirs is None:
            raise ContractError("the other end has not said its hello yet")
        ours_first = self._role in (CONTROLLER, CALLER)
        challenges = (self._challenge, self._theirs) if ours_first else (self._theirs, self._challenge)
        return derived_key(self._key, b"handshake", purpose, *challenges)


class Session:
    """Codes for the messages of one conversation: each passes once, unchanged and in order."""

    def __init__(self, ours: bytes, theirs: bytes) -> None:
        self._ours, self._theirs = ours, theirs
        self._said = self._heard = 0

    def seal(self, message: bytes) -> bytes:
        self._said += 1
        return message + _code(self._ours, self._said, message)

    def opened(self, sealed: bytes) -> bytes:
        """The message, or HandshakeError; a conversation that had one is over."""
        message, code = sealed[:-CODE_BYTES], sealed[-CODE_BYTES:]
        self._heard += 1
        if len(sealed) < CODE_BYTES or not compare_digest(code, _code(self._theirs, self._heard, message)):
            raise HandshakeError("a message that the other end did not say, or not now")
        return message


def _code(key: bytes, number: int, message: bytes) -> bytes:
    return blake2b(_NUMBER.pack(number) + message, key=key, digest_size=CODE_BYTES).digest()
