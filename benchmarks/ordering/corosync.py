"""Corosync's closed process groups: a daemon and a member in each namespace, with mounts of their own.

Every daemon believes that the machine is its own; `/run`, its state and its shared memory are its own, too.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from ordering.cases import BrokenRunError, Case, Outcome, outcome
from ordering.lan import Lan, cpu_us, end
from ordering.member import START_S_MAX, WORDS_MAX, Member, carry_out

SOURCE = Path(__file__).with_name("cpg_member.c")
LOOK_EVERY_S = 0.05
BOOT = """for folder in /run /var/lib/corosync /dev/shm; do mount -t tmpfs tmpfs $folder || exit 1; done
mkdir -p /run/corosync && exec corosync -f -c "$0"
"""
CONFIGURATION = """totem {{
    version: 2
    cluster_name: group
    transport: knet
}}
system {{
    sched_rr: {real_time}
    move_to_root_cgroup: no
}}
logging {{
    to_stderr: no
    to_syslog: no
    to_logfile: yes
    logfile: {log}
}}
nodelist {{
{nodes}}}
"""
NODE = """    node {{
        nodeid: {number}
        name: n{number}
        ring0_addr: {address}
    }}
"""


class Corosync:
    """The daemons and their members, from one run to the next."""

    name = "corosync"
    packages = ("corosync", "libcpg-dev", "gcc", "libc6-dev")
    settings = "CPG, agreed order, knet, daemons with the priority of everybody else, else defaults"
    real_time = "no"

    def __init__(self, lan: Lan) -> None:
        self._lan = lan
        self._left = ExitStack()
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._members: list[Member] = []

    def __enter__(self) -> Corosync:
        with ExitStack() as undo:
            folder = Path(undo.enter_context(TemporaryDirectory()))
            program = folder / "cpg_member"
            subprocess.run(["gcc", "-O2", "-o", program, SOURCE, "-lcpg"], check=True)
            undo.callback(lambda: end([member.process for member in self._members]))
            undo.callback(lambda: end(self._daemons))
            self._start_daemons(folder)
            self._start_members(folder, program)
            self._left = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.close()
        self._daemons, self._members = [], []

    def run(self, case: Case) -> Outcome:
        processes = [one.pid for one in (*self._daemons, *(member.process for member in self._members))]
        before = cpu_us(processes)
        seen = carry_out(self._members, case)
        return outcome(self.name, case, seen, cpu_us(processes) - before)

    def _start_daemons(self, folder: Path) -> None:
        lan = self._lan
        nodes = "".join(NODE.format(number=at + 1, address=lan.address(at)) for at in lan.members)
        for at in lan.members:
            configuration = folder / f"{at}.conf"
            words = CONFIGURATION.format(real_time=self.real_time, nodes=nodes, log=folder / f"{at}.log")
            configuration.write_text(words, encoding="ascii")
            command = ["unshare", "-m", "--propagation", "private", "sh", "-c", BOOT, str(configuration)]
            self._daemons.append(lan.start(at, command))
        until = time.monotonic() + START_S_MAX
        for at in lan.members:
            self._await(folder / f"{at}.log", self._daemons[at], until)

    def _await(self, log: Path, daemon: subprocess.Popen[bytes], until: float) -> None:
        """Until the daemon has seen all others and is in service."""
        while not _is_complete(log, len(self._lan.members)):
            if time.monotonic() > until or daemon.poll() is not None:
                words = log.read_text(encoding="utf-8")[-WORDS_MAX:] if log.exists() else ""
                raise BrokenRunError(f"corosync does not come up: {words}")
            time.sleep(LOOK_EVERY_S)

    def _start_members(self, folder: Path, program: Path) -> None:
        for at in self._lan.members:
            mounts = ["nsenter", "-t", str(self._daemons[at].pid), "-m"]
            command = [*mounts, str(program), str(at), str(len(self._lan.members))]
            self._members.append(Member(self._lan, at, command, folder / f"{at}.err"))
        for member in self._members:
            for _ in ("joined", "up"):
                member.hear(START_S_MAX)


class RealTimeCorosync(Corosync):
    """The same as corosync comes: its daemons go before everything else on the machine."""

    name = "corosync-rt"
    settings = "the same, with the real-time scheduling that is its default"
    real_time = "yes"


def _is_complete(log: Path, members: int) -> bool:
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    _, full, after = text.rpartition(f"Sync members[{members}]")
    return bool(full) and "ready to provide service" in after
