"""M1 to M3 under everything that RelM does not need to be spared.

`published` in runs with up to two supervisors or with even wires, and in any schedule with one; `repaired` with three
on uneven wires.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relm_bench import MILLISECOND, SECOND, VARIANTS, broken, is_on_air, leftovers, relm_bench
from relm_trials import trial

from castbed import ConfigurationError, load_registry
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins.relm import PROTOCOL, Join, Leave
from castbed_testbed.disturbance import disturbed
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan

STATIONS = ("M1", "M2", "M3", "M4")
SETTINGS = {
    "one supervisor, uneven wires": {"supervisors": 1, "wire_ms": 60},
    "two supervisors, uneven wires": {"supervisors": 2, "wire_ms": 60},
    "three supervisors, even wires": {"supervisors": 3},
    "one supervisor, joins and leaves": {"supervisors": 1, "wire_ms": 60, "members_change": True},
    "two supervisors, joins and leaves": {"supervisors": 2, "wire_ms": 60, "members_change": True},
    "repaired": {"supervisors": 3, "wire_ms": 60, "variant": "repaired"},
    "repaired, joins and leaves": {"supervisors": 3, "wire_ms": 60, "members_change": True, "variant": "repaired"},
}
Wire = tuple[str, str]
HOSTS = {"a": "M1", "b": "M2", "c": "M2"}
ONE = {"SH1": STATIONS}
THREE = {"SH1": ("M1", "M4"), "SH2": ("M2",), "SH3": ("M3",)}


@pytest.mark.parametrize("setting", SETTINGS)
def test_hosts_that_move_get_everything_once_and_in_order(setting: str) -> None:
    """M1, M2 (FIFO), M3 in the simulator."""
    for seed in range(1, 9):
        assert (seed, trial(seed, **SETTINGS[setting]).failure) == (seed, "")


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_hosts_that_move_get_everything_once_and_in_order_in_many_runs(setting: str) -> None:
    """M1, M2 (FIFO), M3 in the simulator."""
    for seed in range(100, 350):
        assert (seed, trial(seed, **SETTINGS[setting]).failure) == (seed, "")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_malformed_frame_disturbs_a_machine(seed: int, variant: str) -> None:
    """The conformance kit asks this only of what it does not refute."""
    loaded = trial(seed, supervisors=2, wire_ms=60, members_change=True, variant=variant).loaded
    assert disturbed(load_registry(), loaded) == []


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (trial(7, supervisors=3, wire_ms=60).history.events for _ in range(2))
    assert one == other


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_the_order_of_arrivals_one_supervisor_loses_nothing(data: Any) -> None:
    """M1 to M3 on the bench: wires are FIFO, the air loses and reorders, hosts move, join and leave at any moment."""
    _holds_whatever_happens(relm_bench(ONE, HOSTS), data)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_the_order_of_arrivals_repaired_supervisors_lose_nothing(data: Any) -> None:
    """M1 to M3 on the bench, the same with three supervisors, one wire between which is slower than all else."""
    slow = data.draw(st.sampled_from([(one, other) for one in THREE for other in THREE if one != other]))
    _holds_whatever_happens(relm_bench(THREE, HOSTS, "repaired"), data, slow)


def _holds_whatever_happens(bench: Bench, data: Any, slow: Wire | None = None) -> None:
    for _ in range(data.draw(st.integers(1, 80), label="steps")):
        _do_anything(bench, data, slow)
    bench.run(5 * SECOND)
    assert broken(bench) == {}
    assert leftovers(bench) == {}
    assert bench.timers == {}


def _do_anything(bench: Bench, data: Any, slow: Wire | None) -> None:
    whats = ("submit", "move", "group", "timer", *["arrive"] * 8)
    what = data.draw(st.sampled_from(whats if slow is None else ("settle", *whats)))
    host = data.draw(st.sampled_from(("a", "b", "c")))
    if what == "submit":
        bench.submit(data.draw(st.sampled_from([name for name in bench.machines if name.startswith("SH")])))
    elif what == "settle":
        bench.settle(lambda copy: (copy.sender, copy.to) != slow)
    elif what == "move":
        bench.lose(lambda copy: copy.to == host and is_on_air(bench, copy))
        bench.move(host, data.draw(st.sampled_from(STATIONS)))
    elif what == "group":
        bench.ask(host, data.draw(st.sampled_from((Join("1"), Leave("1")))))
    elif what == "timer" and bench.timers:
        bench.expire(*data.draw(st.sampled_from(sorted(bench.timers, key=repr))))
        bench.now += MILLISECOND
    elif bench.in_flight:
        _let_one_arrive(bench, data)


def _let_one_arrive(bench: Bench, data: Any) -> None:
    """Any copy on the air, which may also get lost; on a wire the oldest."""
    copy: Copy = data.draw(st.sampled_from(bench.in_flight))
    if is_on_air(bench, copy) and data.draw(st.integers(0, 4)) == 0:
        bench.lose(lambda other: other == copy)
        return
    if not is_on_air(bench, copy):
        copy = bench.copies(sender=copy.sender, to=copy.to)[0]
    bench.arrive(copy)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("topology.wire.fifo", {"topology": {"wire": {"fifo": False}}}),
        ("faults.crashes", {"faults": {"crashes": [{"node": "S1", "at": "1s"}]}}),
        ("faults.absences", {"faults": {"absences": [{"node": "h1", "start": "1s", "end": "2s"}]}}),
        ("mobility.gap", {"mobility": {"dwell": "1s", "gap": "1s"}}),
    ],
)
def test_what_takes_a_need_away_is_refused(key: str, change: dict[str, Any]) -> None:
    """M5, M6 and the wires of section 1."""
    topology = {"kind": "three_tier", "coordinators": 2, "stations": 2, "hosts": 2} | change.pop("topology", {})
    data = {"name": "refused", "protocol": {"name": "relm"}, "duration": "1s", "topology": topology} | change
    with pytest.raises(ConfigurationError, match=key.replace(".", r"\.")):
        make_plan(load(data).experiment, load_registry())


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_wire_and_air_need_is_declared(variant: str) -> None:
    """Section 1: reliable FIFO wires, a lossy air, no crashes (M6), no absences (M5)."""
    needs = PROTOCOL.variants[variant].needs
    assert needs == {"air", "wire", "reliable_wire", "fifo_wire", "no_crash", "no_absence"}
