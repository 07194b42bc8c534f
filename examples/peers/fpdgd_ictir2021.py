"""Records FPDGD of Wang et al. 2021, as its authors published it (github.com/ielab/fpdgd-ictir2021).

Wraps three of their functions at run time: the one that makes a list, the one that turns clicks into a
gradient, and the one that draws noise. Everything else is theirs. Their `train_uniform` passes one argument
too many to `RankingClient` and raises, so the rounds are played here.

    python fpdgd_ictir2021.py /path/to/fpdgd-ictir2021 mq2008/train.txt trace
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field

import numpy as np
from foltr_audit_recorder import ReceivedMessage, Recorder, ShownList
from play_options import CLICK_MODELS, fpdgd_facts, noise_options, play_options


@dataclass
class Notes:
    """What the wrapped functions saw of one client's message.

    Attributes:
        lists: query, shown documents, features of all candidates, clicks.
        noise: what was added to the model.
    """

    lists: list[tuple[str, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    query: str = ""
    noise: float | np.ndarray = 0.0


def wrap(ranker_class: type, client_module: object) -> Notes:
    """Wrap the published functions; returns where they put what they see."""
    notes = Notes()
    make_list, learn, draw = (
        ranker_class.get_query_result_list,
        ranker_class.update_to_clicks,
        client_module.gamma_noise,
    )

    def noted_list(self, dataset, query, random=False):
        notes.query = query
        return make_list(self, dataset, query, random)

    def noted_step(self, click_label, ranking, doc_scores, feature_matrix, *rest, **more):
        notes.lists.append((notes.query, ranking.copy(), feature_matrix, np.array(click_label) == 1))
        return learn(self, click_label, ranking, doc_scores, feature_matrix, *rest, **more)

    def noted_noise(*given):
        notes.noise = draw(*given)
        return notes.noise

    ranker_class.get_query_result_list, ranker_class.update_to_clicks = noted_list, noted_step
    client_module.gamma_noise = noted_noise
    return notes


def facts(asked: argparse.Namespace) -> dict[str, object]:
    """What everybody may know of the program, by the names of foltr-audit."""
    return fpdgd_facts(
        asked,
        "fpdgd-ictir2021",
        pairs="last-click+1",  # documents down to one below the last click
        normaliser="candidates",  # the Plackett-Luce model is of all candidates of the query
        clip_without_pairs=True,  # it acts after every list, but only if noise is on
    )


def play(asked: argparse.Namespace) -> None:
    """Play the rounds with the published clients, and record them."""
    sys.path.insert(0, str(asked.checkout))
    from clickModel.click_simulate import CcmClickModel
    from client import client as client_module
    from data.LetorDataset import LetorDataset
    from ranker.PDGDLinearRanker import PDGDLinearRanker

    notes = wrap(PDGDLinearRanker, client_module)
    np.random.seed(asked.seed)
    random.seed(asked.seed)
    data = LetorDataset(str(asked.letor), asked.features, query_level_norm=asked.normalise)
    numbers = {query: number for number, query in enumerate(data.get_all_querys())}
    click, stop = (dict(enumerate(row)) for row in CLICK_MODELS[asked.click_model])
    users = CcmClickModel(click, stop, asked.click_model, depth=10)
    server = PDGDLinearRanker(asked.features, asked.learning_rate)
    noisy, n = asked.epsilon > 0, asked.noise_clients or asked.clients
    server.enable_noise_and_set_sensitivity(noisy, asked.sensitivity)
    clients = [
        client_module.RankingClient(
            data,
            server,
            asked.seed * asked.clients + number,
            users,
            asked.sensitivity,
            asked.epsilon,
            noisy,
            n,
        )
        for number in range(asked.clients)
    ]
    with Recorder(
        asked.trace, facts(asked), kind="model", list_length=10, source=asked.letor.name, parts=("train",)
    ) as recorder:
        for _ in range(asked.rounds):
            model, sent, messages = server.get_current_weights(), [], []
            for number, client in enumerate(clients):
                notes.lists, notes.noise = [], 0.0
                message, _ = client.client_ranker_update(asked.interactions, multi_update=True)
                sent.append(message)
                lists = [
                    ShownList(
                        features=rows[ranking],
                        shown=ranking,
                        clicks=clicks,
                        query=numbers[query],
                        candidates=rows,
                    )
                    for query, ranking, rows, clicks in notes.lists
                ]
                messages.append(
                    ReceivedMessage(
                        arrays=message.parameters.copy(),
                        sender=number,
                        count=message.n_interactions,
                        lists=lists,
                        update=message.parameters - notes.noise - model,
                    )
                )
            server.federated_averaging_weights(sent)
            for client in clients:
                client.update_model(server)
            recorder.round(model, messages, aggregate=server.get_current_weights(), shares=n if noisy else 0)


def main() -> None:
    """Read the command line and play."""
    parser = noise_options(play_options(__doc__))
    parser.add_argument("--normalise", action="store_true", help="min-max by query, as for MSLR-WEB10K")
    play(parser.parse_args())


if __name__ == "__main__":
    main()
