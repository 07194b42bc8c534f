"""The ServerApp: plain averaging or SecAgg+, and the recorder around Flower's Grid."""

from __future__ import annotations

import math

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg, Strategy
from foltr_audit_recorder.flower import RecordingGrid, local_dp_facts

from federated_search.letor_data import load_queries

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for the configured number of rounds and record every one."""
    config = context.run_config
    ranker = "mlp" if config["learner"] == "mlp" else "linear"
    trace, facts = str(config["trace"]), facts_of(config)
    grid = RecordingGrid(grid, trace, facts=facts, ranker=ranker, truth=True)  # a laboratory: clients consent
    if config["secure"]:
        from federated_search.secagg_server import train_masked

        train_masked(grid, context)
    else:
        train_in_clear(grid, context)


def train_in_clear(grid: Grid, context: Context) -> None:
    """Federated averaging of the message API, all nodes in every round."""
    strategy: Strategy = FedAvg(fraction_evaluate=0.0)
    if context.run_config["flower-dp"] == "central":
        from federated_search.dp_clients import CLIP

        nodes = len(list(grid.get_node_ids()))
        strategy = DifferentialPrivacyClientSideFixedClipping(strategy, 1.0, CLIP, nodes)
    result = strategy.start(grid, first_model(context), num_rounds=int(context.run_config["rounds"]))
    grid.close(result.arrays)


def first_model(context: Context) -> ArrayRecord:
    """The model of the first round: zeros, or a small random network."""
    config = context.run_config
    width = load_queries(str(config["data"]))[0].features.shape[1]
    if config["learner"] == "mlp":
        from federated_search.mlp_learner import new_network

        return ArrayRecord(new_network(width).state_dict())
    return ArrayRecord({"weight": Array(np.zeros(width, dtype=np.float32))})


def facts_of(config: dict) -> dict[str, object]:
    """What an attacker may know about this federation; every fact is in foltr-audit's documentation."""
    facts: dict[str, object] = {
        "learning_rate": float(config["learning-rate"]),
        "interactions": 1,
        "click_model": str(config["click-model"]),
        "lists": "sampled",
        "lists_known": "auditor",  # from consenting clients: this server does not see lists
    }
    if config["learner"] == "pdgd":
        facts |= {"pairs": "all", "normaliser": "shown"}
    if config["flower-dp"] == "local":
        from federated_search.dp_clients import local_dp_mod

        return facts | local_dp_facts(local_dp_mod)
    if config["flower-dp"] == "central":
        from federated_search.dp_clients import CLIP

        # What the recorder does not see: the strategy adds normal noise of this deviation to the sum.
        events = [f"bounded:of=update,norm={CLIP},ord=2", f"noised-sum:sigma={CLIP},bands=1"]
        return facts | {"noise": "none", "events": events}
    epsilon, sensitivity = float(config["epsilon"]), float(config["sensitivity"])
    if epsilon <= 0 or math.isinf(epsilon):
        return facts | {"noise": "none"}
    noise = f"gamma-share:n={int(config['noise-clients'])},scale={sensitivity / epsilon:g}"
    return facts | {"noise": noise, "clip_norm": sensitivity / 2, "clip_ord": 2, "eps_claimed": epsilon}
