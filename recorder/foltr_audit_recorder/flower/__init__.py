"""Recording a Flower federation, of version 1.41: two lines in a ServerApp.

    from foltr_audit_recorder.flower import RecordingGrid
    strategy.start(RecordingGrid(grid, "trace"), initial_arrays=arrays, num_rounds=10)

Flower is imported when it is used. Begin with `grid.py`.
"""

from .client_records import local_dp_facts, record_truth, recording_mod
from .grid import RecordingGrid
from .server_app import RecordingStrategy, record_app

__all__ = [
    "RecordingGrid",
    "RecordingStrategy",
    "local_dp_facts",
    "record_app",
    "record_truth",
    "recording_mod",
]
