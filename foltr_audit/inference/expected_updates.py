"""What a client's update is expected to be under each intent, and how much clicks make it vary."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.records.view import View
from foltr_audit.inference.intent_likelihood import under_each
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.utils.arrays import Floats, Ints

_MOST_PARAMETERS = 256  # a covariance of more would take a megabyte for each sum


class ExpectedUpdates(NamedTuple):
    """Moments of what each list adds to the update of its client, given the list.

    Attributes:
        mean: under each intent, float64 (n, B, I, P); 0 where a message has fewer lists.
        covariance: of the sum over all lists, if intents are equally likely and known, float64 (n, P, P).
    """

    mean: Floats
    covariance: Floats


def knows_expected_updates(view: View) -> bool:
    """Whether an observer can compute the updates that are expected under each intent."""
    known = view.knowledge
    if not (known.intents and known.has("click_model") and all(known.has(name) for name in NEEDS)):
        return False
    fits = view.parameters.shape[1] <= _MOST_PARAMETERS and why_too_long(view) is None
    return (
        fits and view.intent_labels is not None and known.belief is not None and why_no_replay(view) is None
    )


def expected_updates(view: View) -> ExpectedUpdates:
    """The moments for all lists of a view that `knows_expected_updates` accepts.

    The probability of each of the 2^k click patterns under the grades of an intent times the update that
    follows from it, summed over the patterns. Each list is taken at the global model, so that they are
    approximate where a client has several in a round.
    """
    alone = _one_list_each(view)
    decoder, worlds = PatternDecoder(alone), under_each(alone)
    (n, B, _), P = view.shown.shape, view.parameters.shape[1]
    mean, covariance = np.zeros((n * B, len(worlds), P)), np.zeros((n, P, P))
    for rows in decoder.chunks():
        terms, columns = _updates_by_pattern(decoder, rows)
        chances = np.stack([np.exp(world.log_priors(rows, 0)) for world in worlds])
        first = np.einsum("ihs,hsj->hij", chances, terms)
        mean[rows] = np.einsum("hij,hpj->hip", first, columns)
        weighted = chances.mean(axis=0)[:, :, np.newaxis] * terms
        second = np.matmul(weighted.transpose(0, 2, 1), terms)
        spread = second - np.einsum("hij,hil->hjl", first, first) / len(worlds)
        np.add.at(covariance, rows // B, np.matmul(np.matmul(columns, spread), columns.transpose(0, 2, 1)))
    return ExpectedUpdates(mean.reshape(n, B, len(worlds), P), covariance)


def _one_list_each(view: View) -> View:
    """The same lists as messages of their own, (n B, 1)."""
    n, B, k = view.shown.shape
    candidates = view.candidates
    lists = {
        name: None if values is None else values.reshape(n * B, 1, *values.shape[2:])
        for name, values in (("labels", view.labels), ("intent_labels", view.intent_labels))
    }
    return replace(
        view,
        parameters=np.repeat(view.parameters, B, axis=0),
        messages=np.repeat(view.messages, B, axis=0),
        seeds=None,
        shown=view.shown.reshape(n * B, 1, k),
        features=view.features.reshape(n * B, 1, *view.features.shape[2:]),
        candidates=None if candidates is None else replace(candidates, query=candidates.query.reshape(-1, 1)),
        labels=lists["labels"],
        intent_labels=lists["intent_labels"],
        clients=np.ones(1, dtype=np.int64),
        senders=None,
    )


def _updates_by_pattern(decoder: PatternDecoder, rows: Ints) -> tuple[Floats, Floats]:
    """Coefficients of each pattern, (H, 2^k, k + 1), and the columns that they are of, (H, P, k + 1)."""
    from foltr_audit.kernels.pattern_terms import pattern_terms

    replay, k = decoder.replay, decoder.view.shown.shape[2]
    theta = np.ascontiguousarray(decoder.view.parameters[rows])
    J = np.ascontiguousarray(replay.jacobian(theta, rows, 0))
    terms = pattern_terms(
        replay.weights(theta, rows, 0),
        J,
        theta,
        replay.lengths[rows, 0],
        replay.learning_rate,
        replay.only_observed,
        decoder.ball,
    )
    return terms[:, :, : k + 1], np.concatenate([J.transpose(0, 2, 1), theta[:, :, np.newaxis]], axis=2)
