"""Robust rules of the server that select messages by their distances: Krum, Multi-Krum, Bulyan."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.errors import UsageError
from foltr_audit.plugins import Defense, RoundContext
from foltr_audit.utils.arrays import Floats, Ints


class _KrumRule(Defense):
    """What the server makes of the messages that a rule selects by their distances."""

    malicious: int = Field(ge=0, description="number f of malicious clients in a cohort, at most")

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """What the rule makes of the messages, float64 (P,); without any message, the average."""
        return self.chosen_of(messages) if len(messages) else aggregate.copy()

    def chosen_of(self, messages: Floats) -> Floats:
        """What the rule makes of one message or more, float64 (P,)."""
        raise NotImplementedError


class Krum(_KrumRule):
    """The server takes the one message that is nearest to the others, in the place of their average.

    The score of a message is the sum of its squared distances to its S - f - 2 nearest others, of S messages
    that arrived and f malicious ones. The least score wins; of equal scores, the first message. The numbers
    of interactions do not count.

    Guarantees: no privacy, for any relation, unit or view: the next global model is the message of one
    client, which everybody gets who gets that model. All bounds on sums are lost; noise that a client added
    to its own message still protects it. With at most f malicious clients and S >= 2 f + 3, and if updates of
    the others are independent and of one law with little variance, the message taken is near their mean.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Blanchard, El Mhamdi, Guerraoui & Stainer 2017, "Machine learning with adversaries: Byzantine
    tolerant gradient descent", section 4.
    """

    name: ClassVar[str] = "krum"

    def chosen_of(self, messages: Floats) -> Floats:
        """The message with the least score, float64 (P,).

        Raises:
            UsageError: fewer than 2 f + 3 messages.
        """
        _expect_enough(self, messages, 2 * self.malicious + 3)
        return np.array(messages[_by_score(squared_distances(messages), self.malicious)[0]])

    def averaged(self, messages: int) -> int:
        return 1


class MultiKrum(_KrumRule):
    """The server takes the plain mean of the messages with the best Krum scores.

    Guarantees: no privacy, for any relation, unit or view: the fewer messages are chosen, the more the next
    global model reveals about each. All bounds on sums are lost; noise that a client added to its own message
    still protects it. Against malicious clients as `krum`.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Blanchard, El Mhamdi, Guerraoui & Stainer 2017, "Machine learning with adversaries: Byzantine
    tolerant gradient descent", section 4 (scores) and section 6 (Multi-Krum).
    """

    name: ClassVar[str] = "multi-krum"

    chosen: int | None = Field(
        default=None, ge=1, description="messages in the mean; all but f of those that arrive if left out"
    )

    def chosen_of(self, messages: Floats) -> Floats:
        """The mean of the messages with the least scores, float64 (P,).

        Raises:
            UsageError: fewer than 2 f + 3 messages, or fewer than f + `chosen`.
        """
        _expect_enough(self, messages, max(2 * self.malicious + 3, (self.chosen or 1) + self.malicious))
        best = _by_score(squared_distances(messages), self.malicious)[: self.averaged(len(messages))]
        return np.asarray(messages[np.sort(best)].mean(axis=0))

    def averaged(self, messages: int) -> int:
        """The number of messages that are chosen."""
        return self.chosen or messages - self.malicious


class Bulyan(_KrumRule):
    """The server selects messages by Krum, then takes a trimmed mean of each coordinate.

    Krum selects a message and removes it, until S - 2 f of S are selected. It sums over the nearest R - f - 2
    of R messages that are left, but at least over one. Of the selected, each coordinate is the mean of the
    S - 4 f values that are nearest to their median; of equally near values, the smaller.

    Guarantees: no privacy, for any relation, unit or view. All bounds on sums are lost; noise that a client
    added to its own message still protects it. With at most f malicious clients and S >= 4 f + 3 each
    coordinate stays near to one that an honest client sent.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: El Mhamdi, Guerraoui & Rouault 2018, "The hidden vulnerability of distributed learning in
    Byzantium", section 4.
    """

    name: ClassVar[str] = "bulyan"

    def chosen_of(self, messages: Floats) -> Floats:
        """The trimmed mean of the selected messages, float64 (P,).

        Raises:
            UsageError: fewer than 4 f + 3 messages.
        """
        _expect_enough(self, messages, 4 * self.malicious + 3)
        left, selected = np.arange(len(messages)), []
        distances = squared_distances(messages)
        for _ in range(len(messages) - 2 * self.malicious):
            best = _by_score(distances[np.ix_(left, left)], self.malicious)[0]
            selected.append(left[best])
            left = np.delete(left, best)
        values = np.sort(messages[selected], axis=0)
        near = np.argsort(np.abs(values - np.median(values, axis=0)), axis=0, kind="stable")
        kept = np.sort(near[: len(selected) - 2 * self.malicious], axis=0)
        return np.asarray(np.take_along_axis(values, kept, axis=0).mean(axis=0))


def squared_distances(messages: Floats) -> Floats:
    """Squared L2 distances between messages (S, P), float64 (S, S); infinite from a message to itself."""
    found = np.full((len(messages), len(messages)), np.inf)
    columns = np.ascontiguousarray(messages.T)
    with np.errstate(over="ignore"):  # a message that is out of range is far from all others
        for row in range(1, len(messages)):
            # Sums over the first axis add one coordinate after the other, on every processor.
            found[row, :row] = np.square(columns[:, :row] - columns[:, row : row + 1]).sum(axis=0)
            found[:row, row] = found[row, :row]
    return found


def _by_score(distances: Floats, malicious: int) -> Ints:
    """Rows in the order of their Krum scores; of equal scores, the first row before others."""
    nearest = max(1, len(distances) - malicious - 2)
    with np.errstate(over="ignore"):
        scores = np.sort(distances, axis=1)[:, :nearest].T.sum(axis=0)
    return np.argsort(scores, kind="stable")


def _expect_enough(defense: Defense, messages: Floats, fewest: int) -> None:
    if len(messages) < fewest:
        raise UsageError(
            f"defense {defense.label}: {len(messages)} messages arrived in a round; "
            f"expected at least {fewest}, from a larger --cohort or with a smaller malicious"
        )
