"""The trace store: what one observer saw of every round, and the truth in separate files.

A trace is `trace.toml` and parts of whole rounds, tables of NumPy arrays, each part committed atomically. Any
system can write one; reading a trace runs no code of its writer.

May import: `core` and the rooms below it, except `data`.
Begin with: `trace_format.py` of the recorder, which declares the format, then `header.py`, `writer.py` and
`reader.py`; `lint/` looks for leaks.
"""

from foltr_audit.recorder.trace_format import SCHEMA
from foltr_audit.trace.facts import Fact
from foltr_audit.trace.header import TraceDataset, TraceHeader
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
