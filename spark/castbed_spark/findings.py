"""What `castbed doctor` says about Spark. Nothing is started, and pyspark is not imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from castbed_spark.java import ADVICE, find_java
from castbed_spark.session import NEEDED


def spark_finding() -> tuple[bool, str]:
    """Whether a session could start here, and with what or why not."""
    versions = {name: _version(name) for name in NEEDED}
    missing = [name for name, found in versions.items() if found is None]
    if missing:
        return False, f"{', '.join(missing)} missing: reads captures at scale; pip install 'castbed[spark]'"
    java = find_java()
    if java is None:
        return False, ADVICE
    return True, f"pyspark {versions['pyspark']} on Java {java.version} ({java.program}, from {java.found_by})"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
