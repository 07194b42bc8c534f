"""Training with SecAgg+: the server sees masked vectors and their sum."""

from __future__ import annotations

from flwr.app import Context
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from foltr_audit_recorder.flower import RecordingGrid, RecordingStrategy

from federated_search.server_app import first_model


def train_masked(grid: RecordingGrid, context: Context) -> None:
    """Federated averaging behind SecAgg+, all nodes in every round."""
    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        initial_parameters=ndarrays_to_parameters(first_model(context).to_numpy_ndarrays()),
        on_fit_config_fn=lambda number: {"round": number},
    )
    legacy = LegacyContext(
        context=context,
        config=ServerConfig(num_rounds=int(context.run_config["rounds"])),
        strategy=RecordingStrategy(strategy, grid),
    )
    # Every client sends one query. With Flower's default, max_weight=1000, a model is multiplied by 1/1000
    # before it is rounded, and the small changes of a round drown in the rounding.
    masking = SecAggPlusWorkflow(num_shares=5, reconstruction_threshold=3, max_weight=1.0)
    DefaultWorkflow(fit_workflow=masking)(grid, legacy)
    grid.close()
