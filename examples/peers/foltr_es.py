"""Records FOLtR-ES of Kharitonov 2019, as it was published (github.com/facebookresearch/foltr-es).

Wraps the scores of its linear ranker and its click model, and hands it a data set that notes which query was
asked. The rounds are those of `train_uniform`.

    python foltr_es.py /path/to/foltr-es mq2008/train.txt trace
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field

import numpy as np
from foltr_audit_recorder import ReceivedMessage, Recorder, ShownList
from play_options import play_options

LENGTH = 10  # documents that users examine


@dataclass
class Notes:
    """What was seen of one client's message.

    Attributes:
        query: the query that is being answered.
        ranking: its documents, best first.
        lists: query, shown documents, clicks.
    """

    query: str = ""
    ranking: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    lists: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)


class NotedQueries(dict):
    """A data set that notes which query was looked up last."""

    notes: Notes

    def __getitem__(self, query):
        """The documents of a query."""
        self.notes.query = query
        return super().__getitem__(query)


def wrap(ranker_class: type, click_class: type) -> Notes:
    """Wrap the published functions; returns where they put what they see."""
    notes = Notes()
    score, click = ranker_class.forward, click_class.__call__

    def noted_scores(self, x):
        scores = score(self, x)
        notes.ranking = np.argsort(scores.detach().numpy()[:, 0])[::-1]  # as the client ranks
        return scores

    def noted_clicks(self, relevances, random_state):
        clicks = click(self, relevances, random_state)
        notes.lists.append((notes.query, notes.ranking[:LENGTH], clicks[:LENGTH] > 0))
        return clicks

    ranker_class.forward, click_class.__call__ = noted_scores, noted_clicks
    return notes


def facts(asked: argparse.Namespace) -> dict[str, object]:
    """What everybody may know of the program, by the names of foltr-audit."""
    return {
        "interactions": asked.interactions,
        "sigma": asked.sigma,
        "metric": "maxrr",
        "antithetic": asked.antithetic,
        "noise": "none" if asked.p == 1.0 else f"metric-rr:p={asked.p}",
        "lists": "deterministic",
        "perturbation": "numpy-randomstate",
        "aggregate": "other",
        "click_model": asked.click_model,
        "learner": "foltr-es",
        "optimiser": "adam",
        "feature_dtype": "float32",
    }


def play(asked: argparse.Namespace) -> None:
    """Play the rounds with the published clients, and record them."""
    sys.path.insert(0, str(asked.checkout))
    import torch
    from foltr.client import click_simulate, rankers
    from foltr.client.client import RankingClient
    from foltr.client.metrics import PrivatizedMaxRR
    from foltr.data.datasets import MqDataset

    torch.manual_seed(asked.seed)
    np.random.seed(asked.seed)
    random.seed(asked.seed)
    notes = wrap(rankers.LinearRanker, click_simulate.CcmClickModel)
    data = NotedQueries(MqDataset.read_mq_file(str(asked.letor), asked.features, None))
    data.notes, numbers = notes, {query: number for number, query in enumerate(data)}
    users = getattr(click_simulate, f"{asked.click_model.upper()}_MODEL")
    ranker = rankers.LinearRanker(asked.features)
    optimiser = torch.optim.Adam(ranker.parameters(), lr=asked.learning_rate)
    clients = [
        RankingClient(
            data, ranker, asked.seed + number, users, PrivatizedMaxRR(asked.p), asked.antithetic, asked.sigma
        )
        for number in range(asked.clients)
    ]
    with Recorder(
        asked.trace, facts(asked), kind="es", list_length=LENGTH, source=asked.letor.name, parts=("train",)
    ) as recorder:
        for _ in range(asked.rounds):
            model, sent, messages = ranker.fc.weight.detach().numpy().reshape(-1).copy(), [], []
            for number, client in enumerate(clients):
                notes.lists = []
                message = client.get_click_feedback(asked.interactions)
                sent.append(message)
                metrics = [message.metric, message.antithetic_metric][: 1 + asked.antithetic]
                lists = [
                    ShownList(
                        features=data[query].features[shown].astype(np.float32),
                        shown=shown,
                        clicks=clicks,
                        query=numbers[query],
                    )
                    for query, shown, clicks in notes.lists
                ]
                messages.append(
                    ReceivedMessage(
                        arrays=np.array([metric.privatized for metric in metrics]),
                        sender=number,
                        count=asked.interactions,
                        seed=message.seed,
                        lists=lists,
                    )
                )
            ranker.zero_grad()
            rankers.update_gradients(ranker, asked.sigma, sent, inverse=True)
            optimiser.step()
            for client in clients:
                client.update_model(ranker)
            after = ranker.fc.weight.detach().numpy().reshape(-1).copy()
            recorder.round(model, messages, aggregate=after)


def main() -> None:
    """Read the command line and play."""
    parser = play_options(__doc__, interactions=2)
    parser.add_argument("--p", type=float, default=1.0, help="probability that a metric is not replaced")
    parser.add_argument("--one-sided", dest="antithetic", action="store_false", help="no mirrored model")
    parser.add_argument("--sigma", type=float, default=0.01, help="standard deviation of a perturbation")
    parser.add_argument("--learning-rate", type=float, default=0.001)
    play(parser.parse_args())


if __name__ == "__main__":
    main()
