"""Records the reproduction of FPDGD by Pham 2022 (github.com/dzungvpham/foltr-pdgd).

Wraps three functions at run time: the one that makes a list, the click model, and the one that draws noise.
The rounds are those of its `train.py`, without its evaluation.

    python foltr_pdgd.py /path/to/foltr-pdgd mq2008/train.txt trace
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field

import numpy as np
from foltr_audit_recorder import ReceivedMessage, Recorder, ShownList
from play_options import fpdgd_facts, noise_options, play_options


@dataclass
class Notes:
    """What the wrapped functions saw of one client's message.

    Attributes:
        lists: features of all candidates, shown documents, clicks.
        noise: what was added to the model.
    """

    candidates: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    lists: list[tuple[np.ndarray, list[int], list[bool]]] = field(default_factory=list)
    noise: float | np.ndarray = 0.0


def wrap(module: object, ranker_class: type) -> Notes:
    """Wrap the published functions; returns where they put what they see."""
    notes = Notes()
    rank, click, draw = (ranker_class.rank_data, module.ClickModel.get_clicks, module.generate_dp_gamma_noise)

    def noted_list(self, X, sample=True):
        notes.candidates = X
        return rank(self, X, sample)

    def noted_clicks(self, ranking, relevance, rng):
        clicks = click(self, ranking, relevance, rng)
        notes.lists.append((notes.candidates, list(ranking), list(clicks)))
        return clicks

    def noted_noise(*given):
        notes.noise = draw(*given)
        return notes.noise

    ranker_class.rank_data, module.ClickModel.get_clicks = noted_list, noted_clicks
    module.generate_dp_gamma_noise = noted_noise
    return notes


def facts(asked: argparse.Namespace) -> dict[str, object]:
    """What everybody may know of the program, by the names of foltr-audit."""
    return fpdgd_facts(
        asked,
        "foltr-pdgd",
        pairs="all",  # every clicked document with every other shown one
        normaliser="shown",  # the Plackett-Luce model is of the shown documents alone
        clip_without_pairs=False,  # a list without pairs is skipped before the clip
    )


def play(asked: argparse.Namespace) -> None:
    """Play the rounds with the published clients, and record them."""
    sys.path.insert(0, str(asked.checkout))
    import client as module
    from dataset import LetorDataset
    from eval import Evaluator
    from ranker import LinearRanker
    from train import click_models

    notes = wrap(module, LinearRanker)
    data = LetorDataset(str(asked.letor), normalize=True)
    evaluator, size = Evaluator(data, rank_cnt=10), data.get_num_features()
    noisy, n = asked.epsilon > 0, asked.noise_clients or asked.clients
    users, clients = click_models[f"MQ2007_{asked.click_model}"], []
    for number in range(asked.clients):
        rng = np.random.default_rng(asked.seed * asked.clients + number)
        clients.append(
            module.Client(
                LinearRanker(size, 10, rng), data, users, evaluator, rng,
                num_clients=n, num_queries=asked.interactions, learning_rate=asked.learning_rate,
                enable_dp=noisy, sensitivity=asked.sensitivity, epsilon=asked.epsilon,
            )
        )  # fmt: skip
    numbers = {query: number for number, query in enumerate(data.qids)}
    model = np.zeros((size, 1))
    with Recorder(
        asked.trace, facts(asked), kind="model", list_length=10, source=asked.letor.name, parts=("train",)
    ) as recorder:
        for _ in range(asked.rounds):
            messages, total = [], np.zeros_like(model)
            for number, client in enumerate(clients):
                notes.lists, notes.noise = [], 0.0
                queries = client.rng.choice(data.qids, size=asked.interactions, replace=False).tolist()
                sent, count, _, _ = client.train_model(model, queries)
                total += sent * count
                lists = [
                    ShownList(features=rows[shown], shown=shown, clicks=clicks, query=numbers[query])
                    for query, (rows, shown, clicks) in zip(queries, notes.lists, strict=True)
                ]
                messages.append(
                    ReceivedMessage(
                        arrays=sent.reshape(-1).copy(),
                        sender=number,
                        count=count,
                        lists=lists,
                        update=(sent - notes.noise - model).reshape(-1),
                    )
                )
            after = total / (asked.interactions * asked.clients)
            recorder.round(model.reshape(-1), messages, aggregate=after.reshape(-1), shares=n if noisy else 0)
            model = after


def main() -> None:
    """Read the command line and play."""
    parser = noise_options(play_options(__doc__))
    play(parser.parse_args())


if __name__ == "__main__":
    main()
