"""Rows of attacks on what tells clients apart: their intents, and which messages are one client's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.intents import IntentDecisions, IntentEvidence
from foltr_audit.judge.linkage import LinkEvidence
from foltr_audit.judge.queries import TruthRanks
from foltr_audit.report.results.attack_rows import columns
from foltr_audit.report.results.base import Row
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats


def intent_rows(evidence: IntentEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per attack: how often the intent is named; intervals are over clients.

    `accuracy` is the share of decisions that are right, ties broken at random, `balanced_accuracy` the mean
    over intents of the share among those of that intent, `probability` what the truth is given in the mean.
    Beside them `chance`, `most_frequent`, the share of the most frequent intent, and `shown`, with
    `shown_balanced`, what naming the intent gives whose relevant documents were shown most.
    """
    for label, told in evidence.told.items():
        resamples, intents = QueryBootstrap(told.client, streams), told.probability.shape[1]
        counts = np.bincount(told.intent, minlength=intents)
        named, shown = TruthRanks.of(told.probability, told.intent), TruthRanks.of(told.shown, told.intent)
        weights = 1.0 / counts[told.intent]
        yield {
            "method": label,
            **where,
            "intents": intents,
            "messages_together": told.messages,
            "decisions": int(told.intent.size),
            "clients": int(resamples.names.size),
            "mixed": told.mixed,
            "left_over": told.left_over,
            "chance": 1.0 / intents,
            "most_frequent": float(counts.max() / told.intent.size),
            **columns("shown", resamples.share(shown.first)),
            **columns("shown_balanced", resamples.ratio(shown.first * weights, weights, share=True)),
            **columns("accuracy", resamples.share(named.first)),
            **columns("balanced_accuracy", resamples.ratio(named.first * weights, weights, share=True)),
            **columns("probability", resamples.share(named.probability)),
            **columns("bits", resamples.mean(bits(told))),
        }


def bits(told: IntentDecisions) -> Floats:
    """What each decision says of the intent, beyond even odds: log2 of its probability times I, (D,)."""
    own = np.take_along_axis(told.probability, told.intent[:, np.newaxis], axis=1)[:, 0]
    return np.asarray(np.log2(np.maximum(own, np.finfo(np.float64).tiny) * told.probability.shape[1]))


def link_rows(evidence: LinkEvidence, where: Row, streams: Streams) -> Iterator[Row]:
    """One row per attack, simple ones first: how often a client's next message is named.

    `accuracy` is the share of messages whose client's next one is named, ties broken at random, `mrr` the
    mean reciprocal rank of it, `probability` what it is given in the mean; `chance` and `chance_mrr` are
    those of guessing. `choices` are the messages to choose from, fewer than the `choices_asked` where a round
    has no more. `count` names by the nearest count in clear, `same-queries` by most queries in common.
    """
    if not evidence.client.size:
        return
    resamples, sizes = QueryBootstrap(evidence.client, streams), evidence.choices
    chance_mrr = [float(np.mean(1.0 / np.arange(1, size + 1))) for size in sizes.tolist()]
    for label, placed in (*evidence.baselines.items(), *evidence.placed.items()):
        yield {
            "method": label,
            "baseline": label in evidence.baselines,
            **where,
            "choices": int(sizes.min()),
            "choices_asked": evidence.asked,
            "messages": int(sizes.size),
            "clients": int(resamples.names.size),
            "chance": float(np.mean(1.0 / sizes)),
            "chance_mrr": float(np.mean(chance_mrr)),
            **columns("accuracy", resamples.share(placed.first)),
            **columns("mrr", resamples.share(placed.reciprocal_rank)),
            **columns("rank", resamples.mean(placed.rank)),
            **columns("probability", resamples.share(placed.probability)),
        }
