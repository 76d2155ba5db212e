"""Starts Spark so that it works at once: Java found, Python told, code shipped, logs quiet, progress on stderr.

pyspark is imported here and nowhere before, because Castbed is installed without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from castbed.errors import UnavailableError
from castbed_spark.java import java_home
from castbed_spark.scratch import scratch
from castbed_spark.shipping import package_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "pandas", "numpy")
LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
SHUFFLE_PARTITIONS_PER_CORE = 2
MEMORY_MIB_MIN = 1024
HASH_JOIN_BYTES_MAX = "64m"  # of one partition: joins of smaller ones need not sort
_QUIET = Path(__file__).with_name("quiet-log4j2.properties")


def start_session(
    master: str = LOCAL, name: str = "castbed", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on `master` that knows the format `castbed`; UnavailableError when this machine cannot have one.

    `settings` are Spark's own and override what is set here.
    """
    _require_packages()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_settings(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    with _java_home_set():
        spark: SparkSession = builder.getOrCreate()
    _prepare(spark, master)
    return spark


@contextmanager
def _java_home_set() -> Iterator[None]:
    """JAVA_HOME as Spark needs it to start Java, and then as it was: who looks for Java next must find the true one."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java_home())
    try:
        yield
    finally:
        del os.environ["JAVA_HOME"]
        if before is not None:
            os.environ["JAVA_HOME"] = before


def is_local(master: str) -> bool:
    """Whether the executors are threads of this machine's driver, so that nothing has to be shipped."""
    return master == "local" or master.startswith("local[")


def _require_packages() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UnavailableError(f"{' and '.join(missing)} missing: pip install 'castbed[spark]'")


def _settings(master: str) -> dict[str, str]:
    directory = scratch()
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -Djava.io.tmpdir={directory}",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": HASH_JOIN_BYTES_MAX,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    if is_local(master):
        cores = os.cpu_count() or 1
        settings["spark.sql.shuffle.partitions"] = str(SHUFFLE_PARTITIONS_PER_CORE * cores)
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = LOOPBACK
        settings["spark.local.dir"] = str(directory)
        settings["spark.driver.memory"] = f"{_memory_mib()}m"
    return settings


def _memory_mib() -> int:
    """A quarter of this machine's memory, for the driver that does all the work in local mode."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(total // 4, MEMORY_MIB_MIN)


def _prepare(spark: SparkSession, master: str) -> None:
    from castbed_spark.source import register

    register(spark)
    if not is_local(master):
        spark.sparkContext.addPyFile(str(package_zip(scratch())))
