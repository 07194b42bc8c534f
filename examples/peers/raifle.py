"""Records clients of RAIFLE, Pham et al. 2025, as published (github.com/dzungvpham/raifle).

Its simulation lies in notebooks. This program plays the same client with the ranker, the click model, the
data set and the noise of the repository: one step of PDGD after each list, and the sum of the steps is sent.

    python raifle.py /path/to/raifle mq2008/train.txt trace
"""

from __future__ import annotations

import argparse
import math
import random
import sys

import numpy as np
from foltr_audit_recorder import ReceivedMessage, Recorder, ShownList
from play_options import CLICK_MODELS, play_options

DELTA, SENSITIVITY, LENGTH = 1e-8, 0.5, 10  # of the published notebooks


def facts(asked: argparse.Namespace, deviation: float) -> dict[str, object]:
    """What everybody may know of the program, by the names of foltr-audit."""
    known: dict[str, object] = {
        "learning_rate": asked.learning_rate,
        "interactions": asked.interactions,
        "pairs": "all",
        "normaliser": "shown",
        "rank_with": "global",  # all lists of a message are made with the model of the round
        "click_model": asked.click_model,
        "learner": "raifle",
        "noise": "none",
    }
    if deviation > 0:
        known |= {
            "update_clip_norm": SENSITIVITY / 2,
            "noise": f"gaussian:sigma={deviation}",
            "eps_claimed": asked.epsilon,
        }
    return known


def play(asked: argparse.Namespace) -> None:
    """Play the rounds with the published ranker and click model, and record them."""
    sys.path.insert(0, str(asked.checkout / "code"))
    import torch
    from dataset import LearningToRankDataset
    from diffprivlib.mechanisms import Gaussian, GaussianAnalytic
    from ranker import LinearPDGDRanker
    from utils import CascadeClickModel, apply_gaussian_mechanism

    torch.manual_seed(asked.seed)
    np.random.seed(asked.seed)
    random.seed(asked.seed)
    data = LearningToRankDataset(str(asked.letor))
    numbers = {query: number for number, query in enumerate(data.get_all_query_ids())}
    users = CascadeClickModel(*map(list, CLICK_MODELS[asked.click_model]))
    ranker, deviation = LinearPDGDRanker(data.get_num_features()), 0.0
    if math.isfinite(asked.epsilon):
        law = Gaussian if asked.epsilon <= 1.0 else GaussianAnalytic
        deviation = law(epsilon=asked.epsilon, delta=DELTA, sensitivity=SENSITIVITY)._scale
    with Recorder(
        asked.trace,
        facts(asked, deviation),
        kind="update",
        list_length=LENGTH,
        source=asked.letor.name,
        parts=("train",),
    ) as recorder:
        for _ in range(asked.rounds):
            model, messages = ranker.gen_params(), []
            for number in range(asked.clients):
                queries = random.sample(list(numbers), asked.interactions)
                local, lists = model.clone(), []
                for query, (relevances, rows) in zip(
                    queries, data.get_data_for_queries(queries), strict=True
                ):
                    if len(relevances) == 1:
                        continue
                    rows = torch.Tensor(rows)
                    shown = ranker.rank(model, rows, sample=True)[:LENGTH]
                    clicks = torch.Tensor(users.click(shown, relevances))
                    order = shown.argsort()  # what the notebooks hand over as the ranking
                    local = local + asked.learning_rate * ranker.grad(local, rows[shown], order, clicks)
                    # So the learner weighs positions as if the list were in the order of the data set.
                    lists.append(
                        ShownList(
                            features=rows[shown][order].numpy(),
                            shown=shown[order].numpy(),
                            clicks=clicks[order].numpy() > 0,
                            query=numbers[query],
                        )
                    )
                update = (local - model).detach()
                sent = apply_gaussian_mechanism(update.clone(), asked.epsilon, DELTA, SENSITIVITY)
                messages.append(
                    ReceivedMessage(
                        arrays=sent.numpy().copy(),
                        sender=number,
                        count=len(lists),
                        lists=lists,
                        update=update.numpy(),
                    )
                )
            weights = np.array([message.count for message in messages], dtype=np.float64)
            mean = weights @ np.array([message.arrays for message in messages]) / weights.sum()
            recorder.round(model.numpy(), messages, aggregate=model.numpy() + mean)


def main() -> None:
    """Read the command line and play."""
    parser = play_options(__doc__, interactions=4)
    parser.add_argument("--epsilon", type=float, default=math.inf, help="of the noise of a message")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    play(parser.parse_args())


if __name__ == "__main__":
    main()
