"""The trace store: what one observer saw of every round, and apart from it the truth.

A trace is the contract between whatever trains and whatever attacks: `trace.toml` and Parquet
parts of whole rounds, each committed atomically. It needs no code to be read, and holds none.
"""

from foltr_audit.trace.header import SCHEMA, Fact, TraceDataset, TraceHeader
from foltr_audit.trace.marker import PartFile, TracePart
from foltr_audit.trace.reader import Trace
from foltr_audit.trace.validate import info, validate
from foltr_audit.trace.writer import TraceWriter

__all__ = [
    "SCHEMA",
    "Fact",
    "PartFile",
    "Trace",
    "TraceDataset",
    "TraceHeader",
    "TracePart",
    "TraceWriter",
    "info",
    "validate",
]
