"""The search finds again what the corpus says it found, with the same command."""

from __future__ import annotations

from pathlib import Path

import pytest

from castbed import load_registry
from castbed_testbed.explore.campaign import explore
from castbed_testbed.explore.hunting import Hunt, hunts_in, not_reported, parse_command

CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.long
@pytest.mark.parametrize("hunt", hunts_in(CORPUS), ids=lambda hunt: hunt.command)
def test_the_command_reports_the_kinds_of_its_scripts(hunt: Hunt) -> None:
    report = explore(*parse_command(hunt.command), jobs=2)
    assert not_reported(hunt, report, load_registry()) == []
