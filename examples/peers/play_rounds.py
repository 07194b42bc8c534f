"""Plays rounds of a published program and prints its interactions a second, by processor time.

    python play_rounds.py fpdgd-ictir2021 CHECKOUT mq2008/train.txt FEATURES CLIENTS INTERACTIONS ROUNDS

Runs under the program's own interpreter and imports nothing of foltr-audit. No line is copied: their clients
and servers are called as in their own training loops, without evaluation.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

MISSING = 3  # exit code where something that the program imports is not installed

PERFECT = {3: (0.0, 0.5, 1.0), 5: (0.0, 0.2, 0.4, 0.8, 1.0)}  # P(click | grade), by the number of grades
EPSILON, SENSITIVITY, RATE = 1.2, 3.0, 0.1


def perfect_users(letor):
    """P(click | grade) and P(stop | grade) of users who never stop, for a file of three or five grades."""
    with Path(letor).open(encoding="utf-8") as lines:
        largest = max(int(line.split(None, 1)[0]) for line in lines)
    click = PERFECT[3 if largest < 3 else 5]
    return click, (0.0,) * len(click)


def fpdgd_ictir2021(letor, features, clients, interactions):
    """Wang et al. 2021, with clip and noise."""
    import numpy as np
    from clickModel.click_simulate import CcmClickModel
    from client.client import RankingClient
    from data.LetorDataset import LetorDataset
    from ranker.PDGDLinearRanker import PDGDLinearRanker

    np.random.seed(1)
    data = LetorDataset(letor, features, query_level_norm=False)
    users = CcmClickModel(*(dict(enumerate(law)) for law in perfect_users(letor)), "perfect", depth=10)
    server = PDGDLinearRanker(features, RATE)
    server.enable_noise_and_set_sensitivity(True, SENSITIVITY)
    every = [
        RankingClient(data, server, number, users, SENSITIVITY, EPSILON, True, clients)
        for number in range(clients)
    ]

    def play():
        sent = [client.client_ranker_update(interactions, multi_update=True)[0] for client in every]
        server.federated_averaging_weights(sent)
        for client in every:
            client.update_model(server)

    return play


def foltr_pdgd(letor, features, clients, interactions):
    """Pham 2022, with clip and noise."""
    import numpy as np
    from client import Client
    from dataset import LetorDataset
    from eval import Evaluator
    from ranker import LinearRanker
    from train import click_models

    data = LetorDataset(letor, normalize=True)
    users = click_models["MQ2007_perfect" if len(perfect_users(letor)[0]) == 3 else "MSLR10k_perfect"]
    evaluator, size = Evaluator(data, rank_cnt=10), data.get_num_features()
    every = []
    for number in range(clients):
        rng = np.random.default_rng(number)
        every.append(
            Client(
                LinearRanker(size, 10, rng), data, users, evaluator, rng,
                num_clients=clients, num_queries=interactions, learning_rate=RATE, enable_dp=True,
                sensitivity=SENSITIVITY, epsilon=EPSILON,
            )
        )  # fmt: skip
    state = {"model": np.zeros((size, 1))}

    def play():
        sent = [client.train_model(state["model"])[:2] for client in every]
        state["model"] = sum(model * count for model, count in sent) / sum(count for _, count in sent)

    return play


def foltr_es(letor, features, clients, interactions):
    """Kharitonov 2019, mirrored models, metrics not randomised."""
    import torch
    from foltr.client import click_simulate, rankers
    from foltr.client.client import RankingClient
    from foltr.client.metrics import PrivatizedMaxRR
    from foltr.data.datasets import MqDataset

    torch.set_num_threads(1)
    data = MqDataset.read_mq_file(letor, features, None)
    ranker = rankers.LinearRanker(features)
    optimiser = torch.optim.Adam(ranker.parameters(), lr=0.001)
    click, stop = (dict(enumerate(law)) for law in perfect_users(letor))
    users = click_simulate.CcmClickModel(click, stop, "perfect", depth=10)
    metric = PrivatizedMaxRR(1.0)
    every = [RankingClient(data, ranker, number, users, metric, True, 0.01) for number in range(clients)]

    def play():
        ranker.zero_grad()
        sent = [client.get_click_feedback(interactions) for client in every]
        rankers.update_gradients(ranker, 0.01, sent, inverse=True)
        optimiser.step()
        for client in every:
            client.update_model(ranker)

    return play


def online_learning_to_rank(letor, features, clients, interactions):
    """Oosterhuis & de Rijke 2018, PDGD; its reader needs Python 2, so that the file is read here."""
    import numpy as np
    from algorithms.PDGD.pdgd import PDGD
    from utils.clicks import ClickModel

    rows, labels, lengths = _read(letor, features)
    ranges = np.concatenate([[0], np.cumsum(lengths)])
    ranker = PDGD(RATE, 1.0, n_results=10, n_features=features)
    ranker.setup(rows, ranges)
    users = ClickModel("perfect", "perfect", *map(np.array, perfect_users(letor)))

    def play():
        for _ in range(clients * interactions):
            query = np.random.choice(len(lengths))
            ranking = ranker.get_train_query_ranking(query)
            ranker.process_clicks(users.generate_clicks(ranking, labels[ranges[query] : ranges[query + 1]]))

    return play


def raifle(letor, features, clients, interactions):
    """Pham et al. 2025, PDGD with a step after each list; no noise, and no manipulated features."""
    import random

    import torch
    from dataset import LearningToRankDataset
    from ranker import LinearPDGDRanker
    from utils import CascadeClickModel

    torch.set_num_threads(1)
    data, ranker = LearningToRankDataset(letor), LinearPDGDRanker(features)
    users, state = CascadeClickModel(*perfect_users(letor)), {"model": ranker.gen_params()}

    def step(model, grades, rows):
        rows = torch.Tensor(rows)
        shown = ranker.rank(state["model"], rows, sample=True)[:10]
        clicks = torch.Tensor(users.click(shown, grades, filter_all_or_zero=False))
        return model + RATE * ranker.grad(model, rows[shown], shown.argsort(), clicks)

    def play():
        sent = []
        for _ in range(clients):
            model = state["model"].clone()
            for grades, rows in data.get_data_for_queries(
                random.sample(data.get_all_query_ids(), interactions)
            ):
                model = step(model, grades, rows)
            sent.append(model)
        state["model"] = torch.stack(sent).mean(dim=0).detach()

    return play


def _read(letor, features):
    """Features scaled to 0 .. 1 within each query, labels, and documents of each query."""
    import numpy as np

    rows, labels, lengths, last = [], [], [], None
    for line in Path(letor).read_text(encoding="utf-8").splitlines():
        label, query, *pairs = line.partition("#")[0].split()
        if query != last:
            lengths.append(0)
            last = query
        row = np.zeros(features)
        for pair in pairs:
            number, value = pair.split(":")
            row[int(number) - 1] = float(value)
        rows.append(row)
        labels.append(int(label))
        lengths[-1] += 1
    matrix, first = np.array(rows), 0
    for length in lengths:
        here = matrix[first : first + length]
        here -= here.min(axis=0)
        here /= np.where(here.max(axis=0) > 0, here.max(axis=0), 1.0)
        first += length
    return matrix, np.array(labels), lengths


PROGRAMS = {
    "fpdgd-ictir2021": fpdgd_ictir2021,
    "foltr-pdgd": foltr_pdgd,
    "foltr-es": foltr_es,
    "OnlineLearningToRank": online_learning_to_rank,
    "raifle": raifle,
}


def main() -> int:
    """Play one round unmeasured, then some measured ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("letor")
    for name in ("features", "clients", "interactions", "rounds"):
        parser.add_argument(name, type=int)
    asked = parser.parse_args()
    inside = "code" if asked.program == "raifle" else ""
    sys.path.insert(0, str(asked.checkout / inside))
    try:
        play = PROGRAMS[asked.program](asked.letor, asked.features, asked.clients, asked.interactions)
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        return MISSING
    play()
    start = time.process_time()
    for _ in range(asked.rounds):
        play()
    taken = time.process_time() - start
    sys.stdout.write(f"\n{asked.rounds * asked.clients * asked.interactions / taken}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
