"""Robust rules of the server: norm bounds, medians, trimmed means, Krum and its kin, FLTrust."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.errors import UsageError
from foltr_audit.plugins import Defense, RoundContext
from foltr_audit.utils.arrays import Floats, Ints


class _RobustRule(Defense):
    """What the server makes of single messages, in the place of their average."""

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """What the rule makes of the messages, float64 (P,); without any message, the average."""
        return self.result(messages, weights, context) if len(messages) else aggregate.copy()

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """What the rule makes of one message or more, float64 (P,)."""
        raise NotImplementedError


class UpdateNormBound(_RobustRule):
    """The server scales every update by min(1, norm / its L2 norm), then takes the weighted mean.

    Where clients send models, their updates are the models minus the global one. An update that is not
    finite, or too large to be scaled, becomes zeros.

    Guarantees: no privacy, for any relation, unit or view: the server has each message before it scales it.
    All bounds on sums are lost, as far as accounting goes; noise that a client added to its own message still
    protects it. No client moves the global model by more than `norm` times its weight. For privacy, let
    clients clip by `clip:of=update,at=message`.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Sun, Kairouz, Suresh & McMahan 2019, "Can you really backdoor federated learning?", section 4
    (norm thresholding of updates).
    """

    name: ClassVar[str] = "norm-bound"

    norm: float = Field(gt=0, description="radius R of the L2 ball of updates")

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The weighted mean of the scaled messages, float64 (P,)."""
        from foltr_audit.kernels.messages import projected

        centre = context.parameters if context.message == "model" else np.zeros(messages.shape[1])
        with np.errstate(over="ignore"):
            updates = np.subtract(messages, centre, dtype=np.float64)
        updates = projected(updates, self.norm, 2)
        return np.asarray(centre + (weights[:, np.newaxis] * updates).sum(axis=0))


class Median(_RobustRule):
    """The server takes the median of the messages in each coordinate, in the place of their average.

    Of an even number it is the mean of the two in the middle. The numbers of interactions do not count.

    Guarantees: no privacy, for any relation, unit or view: each coordinate of the next global model is that
    of one or two clients. All bounds on sums are lost; noise that a client added to its own message still
    protects it. While fewer than half of the clients are malicious, each coordinate lies between two that
    honest clients sent.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Yin, Chen, Ramchandran & Bartlett 2018, "Byzantine-robust distributed learning: towards optimal
    statistical rates", section 4, definition 1 and algorithm 1, option I.
    """

    name: ClassVar[str] = "median"

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The median of each coordinate, float64 (P,)."""
        return np.asarray(np.median(messages, axis=0))


class TrimmedMean(_RobustRule):
    """The server takes the mean of each coordinate without its largest and its smallest values.

    Of S messages, floor(share S) are dropped at each end. The numbers of interactions do not count.

    Guarantees: no privacy, for any relation, unit or view. All bounds on sums are lost; noise that a client
    added to its own message still protects it. While at most floor(share S) clients are malicious, each
    coordinate lies between two that honest clients sent.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Yin, Chen, Ramchandran & Bartlett 2018, "Byzantine-robust distributed learning: towards optimal
    statistical rates", section 4, definition 2 and algorithm 1, option II.
    """

    name: ClassVar[str] = "trimmed-mean"

    share: float = Field(ge=0, lt=0.5, description="share of the messages dropped at each end, below 0.5")

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
        """The trimmed mean of each coordinate, float64 (P,)."""
        # 0.29 * 100 is less than 29 in floating point, but 29 are meant.
        dropped = min(math.floor(self.share * len(messages) + 1e-9), (len(messages) - 1) // 2)
        kept = np.sort(messages, axis=0)[dropped : len(messages) - dropped]
        return np.asarray(kept.mean(axis=0))


class _KrumRule(_RobustRule):
    """What the server makes of the messages that a rule selects by their distances."""

    malicious: int = Field(ge=0, description="number f of malicious clients in a cohort, at most")


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

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
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

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
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

    def result(self, messages: Floats, weights: Floats, context: RoundContext) -> Floats:
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


class ServerTrust(Defense):
    """The server learns from a few labelled queries of its own, and trusts updates that point the same way.

    The trust in an update is its cosine with the update of the server, or 0 where that is negative. Every
    update is scaled to the length of that one, and the new model moves by their mean weighted by trust.
    Without any trust, or if the server learnt nothing, the model stays. The numbers of interactions do not
    count.

    The server's queries are drawn once from the training part. In each round it takes as many local steps as
    a client, from lists that the model ranks and clicks by its labels, without any defense.

    Guarantees: no privacy, for any relation, unit or view: the server has each message before it weighs it.
    All bounds on sums are lost; noise that a client added to its own message still protects it. No client
    moves the global model by more than the length of the server's update.

    It needs single messages, so it is refused with `secure-aggregation`.

    Source: Cao, Fang, Liu & Gong 2021, "FLTrust: Byzantine-robust federated learning via trust
    bootstrapping", section 4, with a global learning rate of 1.
    """

    name: ClassVar[str] = "fltrust"

    queries: int = Field(10, ge=1, description="labelled queries of the training part that the server owns")

    @property
    def server_queries(self) -> int:
        return self.queries

    def on_aggregate(
        self, aggregate: Floats, messages: Floats, weights: Floats, context: RoundContext
    ) -> Floats:
        """The mean of the scaled messages by trust, float64 (P,).

        Without any message, or where the server has no update of its own, the average.
        """
        if not len(messages) or context.server_update is None:
            return aggregate.copy()
        centre = context.parameters if context.message == "model" else np.zeros(aggregate.size)
        own = context.server_update
        # Sums over the first axis add one coordinate after the other, on every processor.
        columns = np.ascontiguousarray((messages - centre).T)
        lengths = np.sqrt(np.square(columns).sum(axis=0))
        length = np.sqrt(np.square(own[:, np.newaxis]).sum(axis=0))
        both = lengths * length
        inner = (columns * own[:, np.newaxis]).sum(axis=0)
        trust = np.maximum(np.divide(inner, both, out=np.zeros_like(both), where=both > 0), 0)
        if not trust.any():
            return np.array(centre, dtype=np.float64)
        shares = np.divide(trust / trust.sum() * length, lengths, out=np.zeros_like(trust), where=trust > 0)
        return np.asarray(centre + (shares[:, np.newaxis] * columns.T).sum(axis=0))
