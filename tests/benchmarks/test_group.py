"""The benchmark of ordered groups: what needs no peers works, and a run that proves nothing is refused."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyroute2")

from ordering import install, load
from ordering.cases import MEMBERS, BrokenRunError, Case, Outcome, Seen, outcome, share
from ordering.lan import Lan, cpu_us, end
from ordering.member import Member, carry_out
from ordering.ours import Castbed
from ordering.results import BETTER, quartiles, rows, table

from castbed.errors import UnavailableError
from namespaces import need_namespaces

CASE = Case(1, 64, 0.3)
SLOW = Case(1, 64, 0.3, 200)
PEER = """
import sys
print("> joined"), print("noise"), print("> up", flush=True)
for line in sys.stdin:
    if line.startswith("run "):
        _, senders, size, seconds, rate = line.split()
        print("> ready", flush=True)
    else:
        print('> {"sent":%s,"delivered":3,"order":"o","first_sent_ns":1,"last_delivered_ns":9,'
              '"p50_us":1,"p90_us":2,"p99_us":3}' % senders, flush=True)
"""


def seen(sent: int = 0, delivered: int = 10, order: str = "same", last: int = 2_000_000_000) -> Seen:
    return Seen(sent, delivered, order, 1_000_000_000, last, 10.0, 20.0, 30.0)


# --- our side --------------------------------------------------------------------------------------------------------


@pytest.mark.netns
@pytest.mark.parametrize("case", [CASE, Case(MEMBERS, 256, 0.3), SLOW], ids=lambda case: case.name)
def test_our_side_delivers_everything_in_one_order(case: Case) -> None:
    need_namespaces()
    with Lan(MEMBERS) as lan, Castbed(lan) as ours:
        found = ours.run(case)
    assert found.messages >= 10
    assert 0 < found.p50_us <= found.p90_us <= found.p99_us
    assert found.cpu_us_per_message > 0


def test_what_a_member_saw_is_reckoned_from_heads_and_times() -> None:
    heads = [load.HEAD.pack(4, number, 1_000 * number) for number in range(1, 101)]
    found = load.summed_up(7, b"".join(heads), [1_000 * number + 500 * number for number in range(1, 101)])
    assert (found.sent, found.delivered, found.first_sent_ns, found.last_delivered_ns) == (7, 100, 1_000, 150_000)
    assert (found.p50_us, found.p90_us, found.p99_us) == (25.5, 45.5, 50.0)
    assert found.order != load.summed_up(7, b"".join(heads[::-1]), [1_000_000] * 100).order


def test_a_member_that_saw_nothing_says_so() -> None:
    assert load.summed_up(0, b"", []).delivered == 0


def test_shares_are_values_that_occurred() -> None:
    assert [share([1.0, 2.0, 3.0, 4.0], of) for of in (0, 0.5, 0.99, 1)] == [1.0, 3.0, 4.0, 4.0]


# --- what a run comes to ---------------------------------------------------------------------------------------------


def test_the_slowest_member_sets_the_rate() -> None:
    members = [seen(sent=10), seen(), seen(last=3_000_000_000), seen()]
    assert outcome("x", CASE, members, 50.0) == Outcome(5.0, 10.0, 20.0, 30.0, 5.0, 10)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([seen(sent=10)] * 3, "3 of 4 members say what they saw"),
        ([seen(delivered=0)] * 4, "nothing was sent"),
        ([seen(sent=10), seen(), seen(delivered=9), seen()], "member 3 delivered 9 of 10 messages"),
        ([seen(sent=10), seen(), seen(), seen(order="other")], "the members delivered in different orders"),
    ],
)
def test_a_run_in_which_members_differ_is_an_error(members: list[Seen], words: str) -> None:
    with pytest.raises(BrokenRunError, match=words):
        outcome("x", CASE, members, 0.0)


# --- members of peers ------------------------------------------------------------------------------------------------


def answering(program: str, folder: Path, lan: Lan) -> Member:
    return Member(lan, 0, [sys.executable, "-c", program], folder / "complaints")


@pytest.mark.netns
def test_a_member_is_told_what_to_do_and_answers(tmp_path: Path) -> None:
    need_namespaces()
    with Lan(1) as lan:
        member = answering(PEER, tmp_path, lan)
        try:
            assert [member.hear(10), member.hear(10)] == [b"joined", b"up"]
            assert [one.sent for one in carry_out([member], Case(3, 64, 0.1))] == [3]
        finally:
            end([member.process])
    assert member.process.returncode is not None


@pytest.mark.netns
def test_a_member_that_ends_or_says_nothing_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    need_namespaces()
    with Lan(1) as lan:
        gone = answering("raise SystemExit('out of luck')", tmp_path, lan)
        with pytest.raises(BrokenRunError, match=r"has ended: .* out of luck"):
            gone.hear(10)
        mute = answering("import time; time.sleep(60)", tmp_path, lan)
        with pytest.raises(BrokenRunError, match="says nothing"):
            mute.hear(0.1)
        end([gone.process, mute.process])
    assert mute.process.returncode is not None


def test_processor_time_is_that_of_the_whole_process() -> None:
    while time.process_time() < 0.1:
        pass
    assert cpu_us([os.getpid()]) == pytest.approx(time.process_time() * 1e6, abs=100_000)


@pytest.mark.netns
def test_members_are_in_namespaces_of_their_own(tmp_path: Path) -> None:
    need_namespaces()
    look = "import os; print('>', os.readlink('/proc/self/ns/net'), flush=True)"
    with Lan(2) as lan:
        members = [Member(lan, at, [sys.executable, "-c", look], tmp_path / str(at)) for at in lan.members]
        spaces = {member.hear(10) for member in members}
        end([member.process for member in members])
    assert len(spaces) == 2
    assert os.readlink("/proc/self/ns/net").encode() not in spaces


# --- installing ------------------------------------------------------------------------------------------------------


def test_nothing_is_done_where_everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "_is_installed", lambda package: True)
    monkeypatch.setattr(install, "_apt_get", lambda *arguments: pytest.fail("nothing is missing"))
    install.install(["corosync"])


def test_without_apt_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "_is_installed", lambda package: False)
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(UnavailableError, match="no apt-get, and the peers need the Debian packages corosync"):
        install.install(["corosync"])


def test_without_root_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    install.install([])
    with pytest.raises(UnavailableError, match="by root only; run as root, or with `--only castbed`"):
        install.install(["corosync"])


# --- results ---------------------------------------------------------------------------------------------------------


def rated(*rates: float) -> list[Outcome]:
    return [Outcome(rate, 100.0, 200.0, 300.0, 5.0, 1) for rate in rates]


def test_ratios_are_formed_within_each_round() -> None:
    found = rows({CASE: {"castbed": rated(10, 40, 30), "corosync": rated(10, 20, 10)}})
    first = next(row for row in found if row["unit"] == "messages/s")
    assert (first["ours"], first["peer"], first["ratio"], first["ratio_quartiles"]) == (30, 10, 2, (1.5, 2.5))


def test_the_better_peer_is_that_of_each_round() -> None:
    systems = {"castbed": rated(10, 10), "corosync": rated(10, 5), "jgroups": rated(5, 20)}
    better = [row for row in rows({CASE: systems}) if row["peer_name"] == BETTER]
    assert [(row["unit"], row["ratio_quartiles"]) for row in better] == [("messages/s", (0.625, 0.875))]


def test_quartiles_of_one_round_are_its_figure() -> None:
    assert quartiles([3.0]) == (3.0, 3.0)


def test_the_table_has_a_line_per_case_and_system() -> None:
    systems = {"castbed": rated(30_000), "corosync": rated(20_000), "jgroups": rated(10_000)}
    lines = list(table(rows({CASE: systems, SLOW: systems})))
    assert [line.split("  ")[0] for line in lines if line] == ["case", *[CASE.name] * 4, "case", *[SLOW.name] * 4]
    assert "20,000 (20,000-20,000)  1.50 (1.50-1.50)" in lines[3]
    assert lines[-3].split()[-3:] == ["200", "300", "5.0"]


@pytest.mark.parametrize("name", ["castbed", "corosync"])
def test_a_system_alone_is_shown_without_ratios(name: str) -> None:
    lines = list(table(rows({CASE: {name: rated(100)}})))
    assert lines[-1].split()[-4:] == [name, "100", "(100-100)", "5.0"]
