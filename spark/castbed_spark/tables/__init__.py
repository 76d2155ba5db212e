"""Tables, each a plain function from DataFrames to a DataFrame."""

from castbed_spark.tables.buffers import buffers
from castbed_spark.tables.deliveries import deliveries
from castbed_spark.tables.direct import deliveries_of
from castbed_spark.tables.links import links
from castbed_spark.tables.messages import messages
from castbed_spark.tables.moves import handoffs, views

__all__ = ["buffers", "deliveries", "deliveries_of", "handoffs", "links", "messages", "views"]
