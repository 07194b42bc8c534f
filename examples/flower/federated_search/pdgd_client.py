"""A client of the message API that learns by PDGD, and agrees to be recorded."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from foltr_audit_recorder.flower import record_truth

from federated_search.local_round import play_round, shown_list
from federated_search.pdgd_learner import PairwiseLearner

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One query of this client's user, and the local model after it."""
    model = message.content["arrays"].to_numpy_ndarrays()[0].astype(np.float64)
    learner = PairwiseLearner(float(context.run_config["learning-rate"]))
    played = play_round(model, learner, context, int(message.content["config"]["server-round"]))
    content = RecordDict(
        {
            "arrays": ArrayRecord({"weight": Array(played.message)}),
            "metrics": MetricRecord({"num-examples": 1}),
        }
    )
    # A laboratory: this client agrees that its list and clicks are recorded beside the message.
    record_truth(content, [shown_list(played.session)], update=played.update)
    return Message(content=content, reply_to=message)
