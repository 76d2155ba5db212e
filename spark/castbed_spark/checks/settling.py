"""Tables that several jobs use: computed once and kept, without the plan that made them.

A cached table still carries its plan. Checks build on each other, so plans would contain each other many times over,
and planning would take longer than computing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def settled(table: DataFrame) -> DataFrame:
    """The table, computed now. It is on the executors, in memory or on their disks, until nobody refers to it.

    Where the session has a checkpoint directory, it is there instead, and survives the loss of an executor.
    """
    directory = table.sparkSession.sparkContext.getCheckpointDir()
    return table.checkpoint() if directory else table.localCheckpoint()
