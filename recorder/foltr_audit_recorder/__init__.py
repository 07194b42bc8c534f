"""Writes down what the server of a federation sees, as a trace that foltr-audit reads.

A distribution of its own, so that a server needs NumPy and nothing else. foltr-audit writes its own
traces with it, as `foltr_audit.recorder`.

May import: itself, by relative imports, and NumPy; modules about Flower also Flower.
Begin with: `recorder.py`, the recorder, and `trace_format.py`, what a trace holds.
"""

from .messages import NodeOutcome, ReceivedMessage, ShownList
from .recorder import Recorder
from .trace_format import VERSION

__version__ = VERSION
__all__ = ["NodeOutcome", "ReceivedMessage", "Recorder", "ShownList", "__version__"]
