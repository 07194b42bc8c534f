"""A ServerApp that records, also one that hands out no grid, and a strategy that tells its aggregate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..recorder import Recorder
from .grid import RecordingGrid
from .payload import COUNT

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import Result


class RecordingStrategy:
    """Hands everything on to a strategy, and tells the recording what it makes of the replies.

    A grid alone sees an aggregate when it goes out as the next model. With this the last one is recorded too,
    and under SecAgg+ the unmasked sum even if the strategy changes it (adds noise, uses momentum):

        RecordingStrategy(FedAvg(), "trace").start(grid, initial_arrays, num_rounds=10)

    Strategies of the legacy API (`aggregate_fit`) go with a grid that records:

        recording = RecordingGrid(grid, "trace")
        strategy = RecordingStrategy(FedAvg(), recording)
        context = LegacyContext(context=context, config=config, strategy=strategy)
        DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(...))(recording, context)
        recording.close()

    Args:
        strategy: the strategy to hand everything on to.
        recorder: a grid that records; or a folder or recorder, for which `start` makes one.
    """

    def __init__(self, strategy: object, recorder: RecordingGrid | Recorder | str | Path = "trace") -> None:
        self._strategy, self._recorder = strategy, recorder

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["_strategy"], name)

    def start(self, grid: Grid, *arguments: object, **options: object) -> Result:
        """Run the strategy's own `start`, record it, and write the last round."""
        recording = self._grid_for(grid)
        strategy, own = self._strategy, vars(self._strategy).get("aggregate_train")
        plain = strategy.aggregate_train  # type: ignore[attr-defined]

        def aggregate_train(server_round: int, replies: Iterable[Message]) -> tuple[object, object]:
            arrays, metrics = plain(server_round, replies)
            recording.aggregated(arrays)
            return arrays, metrics

        # The strategy's loop calls its own method. A subclass may have another loop, so that is left alone.
        strategy.aggregate_train = aggregate_train  # type: ignore[attr-defined]
        try:
            return strategy.start(recording, *arguments, **options)  # type: ignore[attr-defined]
        finally:
            if own is None:
                del strategy.aggregate_train  # type: ignore[attr-defined]
            else:
                strategy.aggregate_train = own  # type: ignore[attr-defined]
            recording.close()

    def _grid_for(self, grid: Grid) -> RecordingGrid:
        if isinstance(grid, RecordingGrid):
            self._recorder = grid
        elif not isinstance(self._recorder, RecordingGrid):
            count_key = getattr(self._strategy, "weighted_by_key", COUNT)
            self._recorder = RecordingGrid(grid, self._recorder, count_key=count_key)
        return self._recorder

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = self._strategy.aggregate_train(server_round, replies)  # type: ignore[attr-defined]
        if isinstance(self._recorder, RecordingGrid):
            self._recorder.aggregated(arrays)
        return arrays, metrics

    def aggregate_fit(
        self, server_round: int, results: Sequence[tuple[object, object]], failures: Sequence[object]
    ) -> tuple[object, object]:
        """The aggregate of a legacy strategy, which is recorded, and what secure aggregation gave it."""
        if isinstance(self._recorder, RecordingGrid) and results:
            # SecAggPlusWorkflow puts the unmasked mean into every result.
            self._recorder.unmasked(results[0][1].parameters)  # type: ignore[attr-defined]
        aggregated, metrics = self._strategy.aggregate_fit(server_round, results, failures)  # type: ignore[attr-defined]
        if isinstance(self._recorder, RecordingGrid):
            self._recorder.aggregated(aggregated)
        return aggregated, metrics


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
