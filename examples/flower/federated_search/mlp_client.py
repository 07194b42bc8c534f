"""A client of the message API that trains a neural ranker in PyTorch, and agrees to be recorded."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from foltr_audit_recorder.flower import record_truth

from federated_search.local_round import play_round, shown_list
from federated_search.mlp_learner import ListwiseLearner

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """One query of this client's user, and the network after it."""
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    model = np.concatenate([array.ravel() for array in arrays.values()]).astype(np.float64)
    width = next(iter(arrays.values())).shape[1]
    learner = ListwiseLearner(width, float(context.run_config["learning-rate"]))
    played = play_round(model, learner, context, int(message.content["config"]["server-round"]))
    ends = np.cumsum([array.size for array in arrays.values()])[:-1]
    parts = zip(arrays.items(), np.split(played.message, ends), strict=True)
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(part.reshape(old.shape)) for (name, old), part in parts}),
            "metrics": MetricRecord({"num-examples": 1}),
        }
    )
    # A laboratory: this client agrees that its list and clicks are recorded beside the message.
    record_truth(content, [shown_list(played.session)], update=played.update)
    return Message(content=content, reply_to=message)
