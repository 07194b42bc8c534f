"""The options that the recipes of all programs share."""

from __future__ import annotations

import argparse
from pathlib import Path

CLICK_MODELS = {
    "perfect": ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
    "navigational": ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
    "informational": ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
}
"""P(click | grade) and P(stop | click, grade) of grades 0 to 2, as all of these programs have for MQ2007."""


def play_options(description: str | None, *, interactions: int = 1) -> argparse.ArgumentParser:
    """A parser with the folder of the program, the data, the trace, and how much to play."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="folder of the published program")
    parser.add_argument("letor", type=Path, help="file of LETOR lines")
    parser.add_argument("trace", type=Path, help="folder of the trace, which must not exist")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--interactions", type=int, default=interactions, help="lists of each message")
    parser.add_argument("--click-model", choices=CLICK_MODELS, default="informational")
    parser.add_argument("--features", type=int, default=46)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def noise_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The same with the settings of FPDGD's clip and noise."""
    parser.add_argument("--epsilon", type=float, default=1.2, help="0: neither clip nor noise")
    parser.add_argument("--sensitivity", type=float, default=3.0)
    parser.add_argument("--noise-clients", type=int, help="n of the noise, if not the number of clients")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    return parser


def fpdgd_facts(
    asked: argparse.Namespace, learner: str, *, pairs: str, normaliser: str, clip_without_pairs: bool
) -> dict[str, object]:
    """What everybody may know of a program of FPDGD, its clip and its noise, by the names of foltr-audit."""
    known: dict[str, object] = {
        "learning_rate": asked.learning_rate,
        "interactions": asked.interactions,
        "pairs": pairs,
        "normaliser": normaliser,
        "lists": "sampled",
        "rank_with": "local",
        "click_model": asked.click_model,
        "learner": learner,
    }
    if asked.epsilon <= 0:
        return known | {"noise": "none"}
    n = asked.noise_clients or asked.clients
    return known | {
        "clip_norm": asked.sensitivity,
        "clip_ord": 2,
        "clip_without_pairs": clip_without_pairs,
        "noise": f"gamma-share:n={n},scale={asked.sensitivity / asked.epsilon}",
        "eps_claimed": asked.epsilon,
    }
