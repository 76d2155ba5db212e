"""Where the processes of nodes come from: a process that was forked from the controller and forks them on request.

It knows the plan as the controller does, so nothing has to be sent or imported again, and a node is there within
milliseconds. It has no event loop and no threads, so forking is safe. When the controller goes, however it goes, the
nursery kills every node and removes what the run made.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import msgspec

from castbed.errors import UnavailableError
from castbed_testbed.hosting.process import Birth, Site, live

REQUEST_BYTES = 1 << 20


class _Bear(msgspec.Struct, frozen=True, tag=True):
    """Fork a process for these nodes; its end of the conversation comes along."""

    births: list[Birth]


class _Kill(msgspec.Struct, frozen=True, tag=True):
    """Kill a process and wait until it is gone."""

    process: int


_decode = msgspec.msgpack.Decoder(_Bear | _Kill).decode
_encode = msgspec.msgpack.Encoder().encode


class Nursery:
    """The controller's side."""

    def __init__(self, site: Site) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = _fork()
        if self._process == 0:
            self._line.close()
            _run_and_exit(_Nurse(site, theirs).serve)
        theirs.close()

    def bear(self, births: list[Birth]) -> tuple[int, socket.socket]:
        """Start a process for these nodes; returns its number and our end of the conversation with it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, _alive():
            socket.send_fds(self._line, [_encode(_Bear(births))], [theirs.fileno()])
            return self._answer(), ours

    def kill(self, process: int) -> None:
        """Kill it with SIGKILL; returns when it is gone."""
        with _alive():
            self._line.send(_encode(_Kill(process)))
            self._answer()

    def _answer(self) -> int:
        answer = self._line.recv(REQUEST_BYTES)
        if not answer:
            raise ConnectionResetError
        return int(answer)

    def close(self) -> None:
        """Kill what is left, and wait until all is gone."""
        self._line.close()
        with suppress(ChildProcessError):
            os.waitpid(self._process, 0)


@contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except OSError:
        words = "the process that starts nodes died: it was killed, or says above what went wrong"
        raise UnavailableError(words) from None


class _Nurse:
    """The forked side."""

    def __init__(self, site: Site, line: socket.socket) -> None:
        self._site = site
        self._line = line
        self._children: set[int] = set()

    def serve(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the controller decides when the run ends
        gc.freeze()  # what is here now is shared with every node and needs no looking at
        try:
            while self._served():
                pass
        finally:
            self._clean_up()

    def _served(self) -> bool:
        """Whether there was a request; otherwise the controller is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._line, REQUEST_BYTES, 1)
        except ConnectionError:
            return False
        if not data:
            return False
        request = _decode(data)
        answer = (
            self._bear(request.births, descriptors[0]) if isinstance(request, _Bear) else self._kill(request.process)
        )
        with suppress(ConnectionError):
            self._line.send(str(answer).encode())
        return True

    def _bear(self, births: list[Birth], descriptor: int) -> int:
        with socket.socket(fileno=descriptor) as stream:
            child = _fork()
            if child == 0:
                self._line.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                _run_and_exit(lambda: live(self._site, births, stream))
        self._children.add(child)
        return child

    def _kill(self, child: int) -> int:
        if child in self._children:
            self._children.discard(child)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return child

    def _clean_up(self) -> None:
        for child in list(self._children):
            self._kill(child)
        self._site.network.close()
        shutil.rmtree(self._site.storage, ignore_errors=True)


def _fork() -> int:
    with warnings.catch_warnings():
        # Later versions of Python warn of threads; the child of the controller starts none and takes none along.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _run_and_exit(run: Callable[[], None]) -> NoReturn:
    """The end of a forked process: nothing of what its parent had planned for its own end may happen here."""
    status = 1
    try:
        run()
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
