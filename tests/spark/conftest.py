"""One Spark session for all tests, and a reason to skip where this machine cannot have one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # small tables must not hide what large ones go through
}


def missing() -> str | None:
    """What Spark needs and this machine lacks, in a sentence."""
    from castbed_spark.java import ADVICE, find_java
    from castbed_spark.session import NEEDED

    if any(find_spec(name) is None for name in NEEDED):
        return "PySpark is not installed: pip install 'castbed[spark]'"

    return None if find_java() is not None else ADVICE


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A real local session."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    from castbed_spark.session import start_session

    session = start_session("local[2]", settings=SETTINGS)
    yield session
    session.stop()
