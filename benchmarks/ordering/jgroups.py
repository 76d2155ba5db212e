"""JGroups with the stack `sequencer.xml` that it comes with: a virtual machine in each namespace."""

from __future__ import annotations

import subprocess
import zipfile
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ordering.cases import BrokenRunError, Case, Outcome, outcome
from ordering.lan import Lan, cpu_us, end
from ordering.member import START_S_MAX, Member, carry_out

ARCHIVE = "/usr/share/java/jgroups.jar"
STACK = "sequencer.xml"
SOURCE = Path(__file__).with_name("GroupMember.java")
BUNDLING = 'max_bundle_timeout="{}"'
SHIPPED_MS, SHORT_MS = 30, 1
WARM_UP = (Case(1, 256, 2.0), Case(4, 256, 2.0), Case(4, 64, 1.0))  # until the compiler has seen all that is run


class JGroups:
    """The virtual machines, from one run to the next; the first member orders."""

    name = "jgroups"
    packages = ("libjgroups-java", "default-jdk-headless")
    settings = f"SEQUENCER, {STACK} as shipped, bundling for up to {SHIPPED_MS} ms"
    bundling_ms = SHIPPED_MS

    def __init__(self, lan: Lan) -> None:
        self._lan = lan
        self._left = ExitStack()
        self._members: list[Member] = []

    def __enter__(self) -> JGroups:
        with ExitStack() as undo:
            folder = Path(undo.enter_context(TemporaryDirectory()))
            command = ["javac", "-nowarn", "-cp", ARCHIVE, "-d", str(folder), str(SOURCE)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            (folder / STACK).write_text(self._stack(), encoding="utf-8")
            undo.callback(lambda: end([member.process for member in self._members]))
            self._start(folder)
            for case in WARM_UP:
                carry_out(self._members, case)
            self._left = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.close()
        self._members = []

    def run(self, case: Case) -> Outcome:
        processes = [member.process.pid for member in self._members]
        before = cpu_us(processes)
        seen = carry_out(self._members, case)
        return outcome(self.name, case, seen, cpu_us(processes) - before)

    def _stack(self) -> str:
        with zipfile.ZipFile(ARCHIVE) as archive:
            shipped = archive.read(STACK).decode()
        if BUNDLING.format(SHIPPED_MS) not in shipped:
            raise BrokenRunError(f"{STACK} of {ARCHIVE} does not bundle for {SHIPPED_MS} ms")
        return shipped.replace(BUNDLING.format(SHIPPED_MS), BUNDLING.format(self.bundling_ms))

    def _start(self, folder: Path) -> None:
        """One after the other: who is there first orders."""
        for at in self._lan.members:
            command = [
                "java", "-Djava.net.preferIPv4Stack=true", f"-Djgroups.bind_addr={self._lan.address(at)}",
                "-cp", f"{ARCHIVE}:{folder}", "GroupMember", str(at), str(len(self._lan.members)), str(folder / STACK),
            ]  # fmt: skip
            member = Member(self._lan, at, command, folder / f"{at}.err")
            self._members.append(member)
            member.hear(START_S_MAX)
        for member in self._members:
            member.hear(START_S_MAX)


class QuickJGroups(JGroups):
    """The same, but a message waits for others for one millisecond only."""

    name = "jgroups-1ms"
    settings = f"the same, bundling for up to {SHORT_MS} ms"
    bundling_ms = SHORT_MS
