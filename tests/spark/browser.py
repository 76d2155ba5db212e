"""A real Chromium, driven over two pipes with the DevTools protocol: enough to open a page, ask it and press keys."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ANSWER_SECONDS_MAX = 120
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
)  # fmt: skip


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """One tab. `errors` is what the console complained about, `requests` every address that was asked for."""

    def __init__(self, orders: int, answers: int) -> None:
        self.orders, self.answers = orders, answers
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        self._number, self._rest, self._session = 0, b"", ""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        order: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self.orders, json.dumps(order).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said["error"]
                return said["result"]

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.answers], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            came = os.read(self.answers, 65536)
            assert came, "the browser went away"
            self._rest += came
        first, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(first)
        self._note(said.get("method", ""), said.get("params", {}))
        return said

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(about["exceptionDetails"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.errors.append(json.dumps(about["args"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded = True

    def open(self, file: Path) -> None:
        self._loaded = False
        self.ask("Page.navigate", url=file.resolve().as_uri())
        while not self._loaded:
            self._next()

    def value(self, script: str) -> Any:
        """What the script evaluates to in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else ""
            )

    def prefer(self, scheme: str) -> None:
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a browser of its own, which ends afterwards."""
    found = program()
    assert found is not None
    their_orders, orders = os.pipe()
    answers, their_answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="castbed-browser-", ignore_cleanup_errors=True) as profile:
        redirected = f'exec "$@" 3<&{their_orders} 4>&{their_answers}'
        command = ["bash", "-c", redirected, "bash", found, *FLAGS, f"--user-data-dir={profile}"]
        running = subprocess.Popen(
            command, pass_fds=(their_orders, their_answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(their_orders)
        os.close(their_answers)
        try:
            yield Page(orders, answers)
        finally:
            os.close(orders)
            os.close(answers)
            running.terminate()
            running.wait(timeout=30)
