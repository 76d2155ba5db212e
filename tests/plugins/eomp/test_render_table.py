"""The speed-up table: the paper's figures, simulated ones beside them, and worker processes."""

from __future__ import annotations

from multiprocessing import parent_process

import pytest
from case_study_runs import REGISTRY
from msgspec.structs import replace

from castbed import ApplicationPlugin, ConfigurationError, UnavailableError
from castbed_plugins.eomp import PROTOCOL
from castbed_plugins.eomp.render import RENDER, Renderer, RenderOptions, Volume
from castbed_testbed import rendering
from castbed_testbed.rendering import Measured, Row, measured_table, show, show_measured, simulated_s, speed_up_table


def test_the_ratios_of_the_paper_recompute() -> None:
    """Spec 2.2: Tables 4 and 5 print these speed-ups."""
    printed = {333: [2.05, 2.97, 3.94], 500: [2.04, 3.01, 4.03, 7.27]}
    for mhz, times in rendering.PAPER_S.items():
        assert [round(times[1] / seconds, 2) for hosts, seconds in times.items() if hosts > 1] == printed[mhz]


def test_four_simulated_hosts_are_nearly_four_times_as_quick_as_one() -> None:
    """Spec 2.2, for a task of one row of the table."""
    one, four = (simulated_s(REGISTRY, PROTOCOL, RENDER, hosts, 298 * 10**9 // 360) for hosts in (1, 4))
    assert 298 < one < 302
    assert 3.8 < one / four < 4


@pytest.mark.long
def test_simulated_speed_ups_have_the_shape_of_the_papers() -> None:
    """Spec 2.2: efficiency 0.95 to 1.02 up to four hosts, about 0.9 at eight."""
    rows = speed_up_table(PROTOCOL, RENDER)
    assert [(row.mhz, row.hosts) for row in rows] == [(mhz, n) for mhz in (333, 500) for n in rendering.PAPER_S[mhz]]
    for row in rows:
        efficiency = row.simulated_speed_up / row.hosts
        assert 0.95 <= efficiency <= 1.02 if row.hosts <= 4 else 0.87 <= efficiency <= 0.95
        assert abs(row.deviation_percent) < 5


def test_a_table_says_how_far_it_is_from_the_paper() -> None:
    shown = show([Row(500, 8, 41, 298 / 41, 40.0, 7.5)]).splitlines()
    assert shown[0].startswith("500 MHz")
    assert shown[2].split() == ["8", "41", "7.27", "40.0", "7.50", "+3.2", "%"]


def test_a_protocol_without_such_a_network_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'sites'"):
        simulated_s(REGISTRY, replace(PROTOCOL, model="sites"), RENDER, 1, 1000)


def test_worker_processes_draw_what_one_process_draws() -> None:
    """VT1 with real processes; how quick they are depends on the machine and is not judged here."""
    rows = measured_table((1, 2), {"frames": 6, "slices": 6, "side": 8, "image_side": 8}, RENDER)
    assert [(row.workers, row.identical) for row in rows] == [(1, True), (2, True)]
    assert rows[0].speed_up == 1
    assert all(row.wall_s > 0 for row in rows)


class Dying(RenderOptions, frozen=True):
    """A task that ends the worker process which computes it."""

    def image(self, volume: Volume, frame: int) -> bytes:
        if parent_process() is not None:
            raise SystemExit(1)
        return super().image(volume, frame)


def test_a_worker_process_that_dies_is_noticed() -> None:
    dying = ApplicationPlugin("render", "", Renderer, Dying)
    with pytest.raises(UnavailableError, match="ended before its work"):
        measured_table((2,), {"frames": 2, "slices": 6, "side": 8, "image_side": 8}, dying)


def test_a_frame_that_differs_is_shown_as_such() -> None:
    shown = show_measured([Measured(2, 1.5, 1.0, False)])
    assert "DIFFERENT" in shown
    assert "cores" in shown.splitlines()[0]
