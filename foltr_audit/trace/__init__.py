"""The trace store: what one observer saw of every round, and the truth in separate files.

A trace is `trace.toml` and parts of whole rounds, tables of NumPy arrays, each part committed atomically. Any
system can write one; reading a trace runs no code of its writer.

May import: `core` and the rooms below it, except `data`.
Begin with: `schema.py` and `header.py`, then `writer.py` and `reader.py`; `lint/` looks for leaks.
"""

from foltr_audit.trace.header import SCHEMA, Fact, TraceDataset, TraceHeader
from foltr_audit.trace.parts import PartFile, TracePart
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
