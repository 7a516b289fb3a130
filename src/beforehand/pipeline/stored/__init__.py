"""A history directory, asked without Spark."""

from beforehand.pipeline.stored.around import Surroundings
from beforehand.pipeline.stored.history import StoredHistory
from beforehand.pipeline.stored.relating import Relation
from beforehand.pipeline.stored.witnesses import clock_witness, overtaken_witness

__all__ = ["Relation", "StoredHistory", "Surroundings", "clock_witness", "overtaken_witness"]
