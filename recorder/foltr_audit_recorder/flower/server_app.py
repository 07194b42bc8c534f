"""A whole ServerApp that records, also one that hands out no grid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..recorder import Recorder
from .grid import RecordingGrid

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp


def record_app(
    server_app: ServerApp,
    trace: str | Path | Recorder = "trace",
    *,
    facts: Mapping[str, object] | None = None,
    truth: bool = False,
) -> ServerApp:
    """A ServerApp that runs another one on a grid that records.

    Apps made with `ServerApp(server_fn=...)` hand out no grid that could be wrapped. This line does it for
    them, and for every other app:

        app = record_app(ServerApp(server_fn=server_fn), "trace")

    Args:
        server_app: the app.
        trace: folder of the trace, or a recorder.
        facts: as for `Recorder`.
        truth: whether to record what consenting clients tell, as for `RecordingGrid`.

    Returns:
        An app to name in pyproject.toml in place of the other.
    """
    from flwr.serverapp import ServerApp as App

    recorded = App()

    @recorded.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        with RecordingGrid(grid, trace, facts=facts, truth=truth) as recording:
            server_app(recording, context)

    return recorded
