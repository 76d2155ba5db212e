"""The shortest delays that the spec computes (section 6), with the wires and the radio of the EOMP paper's Table 1."""

from __future__ import annotations

import pytest
from relm_bench import VARIANTS

from castbed import History, Kind, load_registry
from castbed_testbed.conformance import run_trial
from castbed_testbed.experiment import load

MILLISECOND = 10**6
FRAME_BYTES = 256
OVERHEAD_BYTES = 14 + 44 + 2  # Ethernet, the header of a frame, and the body of a Data packet


def one_message(variant: str) -> History:
    """C1 says one thing; h1 is in its own domain, h2 in the other."""
    text = "x" * (FRAME_BYTES - OVERHEAD_BYTES)
    experiment = {
        "name": "floor",
        "protocol": {"name": "relm", "variant": variant},
        "duration": "1s",
        "topology": {
            "kind": "three_tier",
            "coordinators": 2,
            "stations": 2,
            "hosts": 2,
            "air": {"rate": "10Mbit/s", "delay": "0ns"},
            "wire": {"rate": "100Mbit/s", "delay": "500us"},
        },
        "workload": {"kind": "script", "lines": [{"node": "C1", "at": "10ms", "say": text}]},
    }
    return run_trial(load_registry(), load(experiment)).history


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("host", "floor_ms"), [("h1", 0.73), ("h2", 1.25)])
def test_an_idle_network_delivers_at_the_floor(host: str, floor_ms: float, variant: str) -> None:
    """0.73 ms in the source's own domain, 1.25 ms in another one: no uplink and no detour, unlike EOMP's 2.49 ms."""
    history = one_message(variant)
    (submitted,) = history.of(Kind.SUBMIT)
    (delivered,) = (event for event in history.of(Kind.DELIVER) if history.name(event.node) == host)
    assert (delivered.at - submitted.at) / MILLISECOND == pytest.approx(floor_ms, abs=0.01)
