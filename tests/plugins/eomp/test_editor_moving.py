"""The editor on EOMP: hosts that change cells, are out of range, and join in mid-traffic."""

from __future__ import annotations

from typing import Any

import pytest
from case_study_runs import Ran, eomp

from castbed_plugins.eomp.editor import EDITOR


def documents(result: Ran) -> list[Any]:
    return [editor.replicas[1].document for editor in result.all()]


@pytest.mark.parametrize("seed", range(4))
def test_moves_outages_and_loss_leave_equal_documents(seed: int) -> None:
    """TT1: nobody presses a button, the hosts just move. Who is behind gets one message per question, one a second."""
    faults = {"loss": 0.01, "random_absences": {"count": 12, "length": "700ms"}}
    data = eomp(5, 6, seed, faults=faults, mobility={"dwell": "1s"}, drain="60s")
    result = Ran(EDITOR, {"rate": 8.0}, data)
    written = sum(editor._counter for editor in result.all())
    assert result.report.effects["random_absences"] == 12
    assert written > 150
    assert {document.applied_count() for document in documents(result)} == {written}
    assert all(document.snapshot() == documents(result)[0].snapshot() for document in documents(result))
    assert all(editor.status().pending == 0 for editor in result.all())


def test_what_is_written_out_of_range_is_applied_once_after_the_return_to_another_region() -> None:
    """TT3: h1 leaves the region of C1, writes, and appears in that of C2."""
    steps = [
        {"node": "h2", "at": "200ms", "do": "insert", "text": "theirs"},
        {"node": "h1", "at": "1s", "do": "insert", "line": 0, "text": "mine"},
    ]
    handoffs = [{"host": "h1", "at": "500ms"}, {"host": "h1", "at": "2s", "to": "S2"}]
    result = Ran(EDITOR, {"steps": steps}, eomp(["h1", "h2"], 4, faults={"handoffs": handoffs}))
    assert {editor.text() for editor in result.all()} == {"mine\ntheirs\n"}
    assert {document.applied_count() for document in documents(result)} == {2}
    assert result["h1"].status().pending == 0


@pytest.mark.parametrize("ms", [800, 1500, 2300])
def test_who_joins_the_group_in_mid_traffic_has_what_the_others_have(ms: int) -> None:
    """TT4, T7: with the protocol's own JOIN, which gives the joiner nothing of what was before."""
    groups, joins = {"1": ["h1", "h2", "h3"]}, [{"node": "h4", "at": f"{ms}ms"}]
    data = eomp(4, 4, topology={"groups": groups}, faults={"joins": joins})
    result = Ran(EDITOR, {"rate": 12.0, "piece": "512B"}, data)
    first = documents(result)[0]
    assert len(documents(result)) == 4
    assert first.applied_count() > 100
    assert all(document.snapshot() == first.snapshot() for document in documents(result))
