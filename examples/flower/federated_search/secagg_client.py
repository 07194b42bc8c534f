"""The same client behind SecAgg+, which Flower has for its older client API only."""

from __future__ import annotations

import numpy as np
from flwr.app import Context
from flwr.client import Client, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from foltr_audit_recorder.flower import record_truth

from federated_search.local_round import play_round, shown_list
from federated_search.pdgd_learner import PairwiseLearner


class SearchClient(NumPyClient):
    """Learns by PDGD; `secaggplus_mod` masks what `fit` returns."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def fit(self, parameters: list[np.ndarray], config: dict[str, int]) -> tuple:
        """The local model after one query, the number of queries, and metrics."""
        model = parameters[0].astype(np.float64)
        learner = PairwiseLearner(float(self.context.run_config["learning-rate"]))
        played = play_round(model, learner, self.context, int(config["round"]))
        metrics: dict[str, bytes] = {}
        # A laboratory: this client agrees that its list and clicks are recorded beside the message.
        record_truth(metrics, [shown_list(played.session)], update=played.update)
        return [played.message], 1, metrics


def client_fn(context: Context) -> Client:
    """The client of a node."""
    return SearchClient(context).to_client()


app = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
