"""The smallest epsilon that is proven for a chain of defenses: one round, or a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from foltr_audit.privacy.accounting.situation import LISTS_REVEAL, AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.accounting.walk import ChainSummary, ProtectiveNoise, SumNoise
from foltr_audit.privacy.bounds import RunBound, UpperBound
from foltr_audit.privacy.events import PrivacyEvent
from foltr_audit.privacy.loss.losses import GaussianLoss, LossProof, PrivacyLoss, PureLoss, SensitivityBound
from foltr_audit.privacy.noise.gaussian import participation_sensitivity
from foltr_audit.privacy.observer_views import sees_lists


def by_sum_noise(walked: ChainSummary, situation: AccountingContext, share: float) -> Iterator[LossProof]:
    """The losses of all observed rounds together, one for each noise; neighbours replace one unit.

    Whoever sees the noisy sums of rounds 0 to T - 1 knows `C x + z`, see `privacy/noise/gaussian.py`. The
    unit moves x in at most k rows, each by the distance of two messages, so that the mechanism is
    mu-GDP with mu = distance times sensitivity over sigma. That later messages depend on earlier sums
    changes nothing (Denisov et al. 2022, "Improved differential privacy for SGD via optimal private linear
    operators on adaptive streams", theorem 2.1). Rounds from a later one on show no more than as many first
    rounds, since the noise that they carry of rounds before them is independent of their own. So one round
    shows no more than independent noise of sigma.

    - The noise is scaled by the largest weight in the average. A lost message changes neither the
      distance nor the noise, and weights of clients do not matter.
    - It protects from whoever sees what the aggregator releases. A server that sees single messages, or
      sums without the noise, as in secure aggregation that it runs itself, is not covered; nor is one that
      colludes with clients.
    - With no more bands than the separation, noise of its own hides each round in which a client may take
      part: they are mechanisms with the length of one column of C, and compose. Then a secret sample, `share`
      of those who may take part in a round, amplifies each (Choquette-Choo et al. 2023, "(Amplified) banded
      matrix factorization: a unified approach to private training", section 4).
    """
    for noise in walked.sum_noises:
        if situation.lists_follow_clicks:
            yield LossProof(None, LISTS_REVEAL)
        elif situation.seen != "aggregate":
            yield LossProof(None, _BEFORE)
        elif situation.members is None or not situation.members.follows:
            yield LossProof(None, _UNKNOWN if situation.members is None else _NOT_FOLLOWED)
        elif not noise.apart.known:
            yield LossProof(None, noise.unbounded)
        else:
            yield _of_run(noise, situation)
            if noise.event.bands <= situation.separation:
                yield _of_turn(noise, situation, share)


_BEFORE = (
    "noise that the aggregator adds to the sum protects from --view aggregate only, who sees nothing before"
)
_UNKNOWN = "nothing says whose messages are in a sum, and with what noise"
_NOT_FOLLOWED = "the server that adds noise to the sum does not follow the protocol"


def _of_run(noise: SumNoise, situation: AccountingContext) -> LossProof:
    """The loss of all rounds together."""
    bands, rounds, times = noise.event.bands, situation.rounds, situation.touched
    length = participation_sensitivity(bands, rounds, times, situation.separation)
    how = _described(noise)
    if rounds > 1:
        correlated = f", correlated over {bands} rounds" if bands > 1 else ""
        apart = f", {situation.separation} rounds apart" if times > 1 and situation.separation > 1 else ""
        how += f"{correlated}; {times} of {rounds} rounds{apart}: sensitivity {length:.4g} times that"
    return LossProof(_loss(noise, length), how, "Gaussian", rests_on="aggregator", whole=True)


def _of_turn(noise: SumNoise, situation: AccountingContext, share: float) -> LossProof:
    """The loss of one round in which a client may take part, with the rounds up to its next one."""
    length = participation_sensitivity(noise.event.bands, situation.rounds, 1, situation.separation)
    how = _described(noise)
    if length > 1:
        how += f", correlated over {noise.event.bands} rounds: sensitivity {length:.4g} times that"
    return LossProof(_loss(noise, length), how, "Gaussian", share=share, rests_on="aggregator")


def _loss(noise: SumNoise, length: float) -> GaussianLoss:
    return GaussianLoss(noise.apart.l2 * length / noise.event.sigma if noise.event.sigma > 0 else math.inf)


def _described(noise: SumNoise) -> str:
    return (
        f"Gaussian noise of sigma {noise.event.sigma:.4g} that the aggregator adds to the sum, L2 distance "
        f"{noise.apart.l2:.4g}"
    )


def upper_bound(events: Sequence[PrivacyEvent], situation: AccountingContext) -> UpperBound:
    """The best of all proofs that the events of a chain give; neighbours replace one unit of one client.

    Each noise is a proof on its own, since nothing after it depends on the clicks again. So are randomised
    clicks and metrics. A unit smaller than a client changes no message by more than a client does.

    - A single message is protected by the noise that its client added. So is a sum, since the others'
      messages are independent of it.
    - A sum also holds the sum of one draw of the noise for each message of an honest client that the server
      cannot take out (`SumMembers`), if nothing changed single messages after it was added. Rounding to
      float32 or float64 does, where the noise of one message has a pole at 0: most shares then leave a
      coordinate as it is, and the last bits of the sum tell it. Unequal weights: weighted Laplace shares of
      scales `w_c s` add up to the sum of shares of the smallest scale and something independent of it,
      because Laplace noise is self-decomposable: `((1 + a^2 t^2) / (1 + b^2 t^2))^(1/n)`, a <= b, is a
      characteristic function (Steutel & van Harn 2004, "Infinite divisibility of probability distributions
      on the real line", chapter V). The largest weight moves the sum most, so distances grow by the ratio of
      the two. For Gaussian noise the variances show the same.
    - The messages of colluding clients (view `colluding`) can be subtracted: what is left is the sum over
      the honest ones, or a single message. Under secure aggregation colluding clients also reveal their
      shares of other clients' secrets and the masks that they share. The probability that this opens some
      message, or the sum of some, counts towards delta.
    - The noise on a message does not protect the shown lists: a list that a local model ranked follows from
      the clicks on the lists before it in the same round. For an observer that sees lists, noise proves
      nothing, unless there is one list a round or the global model ranks them all. Clicks that are
      randomised before the client learns from them protect the lists too. Nothing hides a whole client,
      since lists reveal its queries.
    - The last bits of a float64 message with continuous noise, if nothing puts it on a grid, reveal what
      the noise was added to (Mironov 2012, "On significance of the least significant bits for differential
      privacy", section 4): nothing is proven then for whoever sees single messages. Events without a number
      format are of real numbers.
    - Where a message holds the seed of its client's draws, no randomness of that client hides anything.
    - Over T rounds losses compose for the units `query` and `client`. A single click or interaction counts
      in the rounds that learn from it, one unless it is of a search log; others depend on it only through
      what was observed in these. Where cohorts are
      drawn at random, whoever knows who takes part knows in how many rounds a client does, a number that
      does not depend on its data: deltas of that many rounds are averaged (`privacy/loss/composition.py`).
    - A secret sample of fixed size amplifies noise, but not randomised clicks (whose loss is smaller than
      that between two clients). It does not amplify where colluding clients or lists reveal who took part,
      or where weights differ. Over several rounds it amplifies units that every round may touch, but not a
      click or an interaction: the client learns from it in the round in which it is sampled, which over T
      rounds happens more often. Nor does it amplify if the client takes part in few rounds at most: it may
      be certain then that it does in some.
    - Noise on the sums of all rounds that is correlated is a proof for the whole run: see `by_sum_noise`.

    See `docs/maths.md`, "Accounting".

    >>> from foltr_audit.privacy.noise import GammaShare
    >>> from foltr_audit.privacy.events import NormBound, NoiseAddition
    >>> chain = [NormBound(norm=1.5, ord=1, of="model"), NoiseAddition(law=GammaShare(n=1, scale=2.5))]
    >>> situation = AccountingContext(view="individual", unit="client", parameters=46, members=None)
    >>> f"{upper_bound(chain, situation).epsilon:.3f}"
    '1.200'
    """
    walked = ChainSummary(events, situation.parameters)
    if sees_lists(situation.view) and situation.unit == "client":
        return UpperBound(
            epsilon=math.inf,
            delta=situation.delta,
            how="lists reveal which queries a client asks; use --unit interaction",
        )
    if walked.revealed is not None:
        how = f"{walked.revealed} sends the seed of a client's draws, so that they hide nothing"
        return UpperBound(epsilon=math.inf, delta=situation.delta, how=how)
    proofs = [
        *(*_by_clicks(walked, situation), *_by_metrics(walked, situation)),
        *(*_by_noise(walked, situation), *by_sum_noise(walked, situation, _share(situation))),
    ]
    bounds = [_bound(proof, situation) for proof in proofs]
    best = min(bounds, key=lambda bound: bound.epsilon, default=None)
    if best is not None and math.isfinite(best.epsilon):
        lost = [proof.how for proof in proofs if proof.rests_on == "sum" and proof.loss is None]
        return replace(best, how="; but ".join([best.how, *dict.fromkeys(lost)]))
    reasons = list(dict.fromkeys(bound.how for bound in bounds)) or ["nothing randomises what a client sends"]
    return UpperBound(epsilon=math.inf, delta=situation.delta, how="; ".join(reasons))


def _by_clicks(walked: ChainSummary, situation: AccountingContext) -> Iterator[LossProof]:
    if math.isinf(walked.bit_epsilon):
        return
    if situation.unit == "client":
        yield LossProof(None, "randomised clicks hide clicks, not which queries a client asks")
        return
    bits = {
        "click": situation.repeats,
        "interaction": situation.repeats * situation.list_length,
        "query": situation.interactions * situation.list_length,
    }[situation.unit]
    how = f"{bits} click{'s' * (bits > 1)} randomised with epsilon {walked.bit_epsilon:.4g} each"
    yield LossProof(PureLoss(walked.bit_epsilon, bits), how)


def _by_metrics(walked: ChainSummary, situation: AccountingContext) -> Iterator[LossProof]:
    """A client sends nothing of an interaction but its metric, whatever query it asked."""
    if math.isinf(walked.metric_epsilon):
        return
    count = situation.interactions if situation.unit in ("query", "client") else situation.repeats
    how = f"{count} metric{'s' * (count > 1)} randomised with epsilon {walked.metric_epsilon:.4g} each"
    yield LossProof(PureLoss(walked.metric_epsilon, count), how)


def _by_noise(walked: ChainSummary, situation: AccountingContext) -> Iterator[LossProof]:
    members, share = situation.members, _share(situation)
    secure, colluding = walked.at_least is not None, situation.seen == "colluding"
    sums = secure or situation.seen != "individual"
    honest = 1 if members is None else members.honest(walked.at_least, colluding=colluding)
    for noise in walked.noises:
        if not noise.apart.known:
            yield LossProof(None, noise.unbounded)
            continue
        if situation.lists_follow_clicks:
            yield LossProof(None, LISTS_REVEAL)
            continue
        if walked.shows_last_bits and (situation.seen == "individual" or honest == 1):
            yield LossProof(None, _LAST_BITS_REVEAL)
            continue
        yield from _in_message(noise, situation, share)
        if sums and members is None:
            yield LossProof(None, _UNKNOWN, rests_on="sum")
        elif sums and members is not None and honest == 1 < members.cohort:
            yield LossProof(None, f"{_ALONE}{members.because}", rests_on="sum")
        elif sums and members is not None and honest > 1:
            keys, rounds = walked.key_shares, situation.rounds
            opened, why = members.opened(keys, walked.at_least, rounds, colluding=colluding)
            # at delta 0 a sum that nobody can open (probability 0) still counts
            if opened > 0 and opened >= situation.delta:
                yield LossProof(None, why, rests_on="sum")
            else:
                proofs = _in_sum(noise, members, honest, situation, share)
                yield from (replace(proof, spent=opened) for proof in proofs)


_ALONE = "a sum may hold one message with noise that the server does not know"

_LAST_BITS_REVEAL = (
    "the last bits of float64 messages reveal what continuous noise was added to; use float32, or noise on a "
    "grid"
)


def _in_message(noise: ProtectiveNoise, situation: AccountingContext, share: float) -> Iterator[LossProof]:
    hidden = SensitivityBound(
        apart=noise.apart, parameters=situation.parameters, grid=noise.grid, where="on each message"
    )
    yield from (replace(proof, share=share) for proof in noise.law.proofs(hidden))


def _in_sum(
    noise: ProtectiveNoise, members: SumMembers, honest: int, situation: AccountingContext, share: float
) -> Iterator[LossProof]:
    if noise.spoilt is not None:
        why = f"{noise.spoilt}, so that the sum does not hold the sum of the noise"
        yield LossProof(None, why, rests_on="sum")
        return
    stretch = members.largest_weight
    weighted = f", weights up to {stretch:.4g} : 1" if stretch > 1 else ""
    honest_only = " of honest clients" if situation.seen == "colluding" or members.silent else ""
    hidden = SensitivityBound(
        apart=noise.apart.times(stretch),
        parameters=situation.parameters,
        grid=noise.grid,
        where=f"in the sum of {honest} messages{honest_only}{members.because}{weighted}",
        stretch=stretch,
    )
    yield from (
        replace(proof, share=share, rests_on="sum") for proof in noise.law.summed(honest).proofs(hidden)
    )


def _share(situation: AccountingContext) -> float:
    """The share of clients in a sample that amplifies; 1 where none does."""
    revealed = situation.seen == "colluding" or sees_lists(situation.view)
    once = situation.touched == situation.turns
    alike = situation.members is None or situation.members.largest_weight == 1
    hidden = situation.cohorts == "secret" and not revealed and alike
    return situation.sampled if hidden and once else 1.0


def _bound(proof: LossProof, situation: AccountingContext) -> UpperBound:
    if proof.loss is None:
        return UpperBound(epsilon=math.inf, delta=situation.delta, how=proof.how)
    rounds, sometimes = 1 if proof.whole else situation.touched, False
    epsilon, delta = proof.loss.epsilon(rounds, 0.0, proof.share), 0.0
    if situation.delta > 0:
        pure, left = epsilon if proof.spent == 0 else math.inf, situation.delta - proof.spent
        epsilon = proof.loss.epsilon(rounds, left, proof.share)
        drawn = math.inf if proof.whole else _sometimes(proof.loss, left, situation)
        epsilon, sometimes = min(drawn, epsilon), drawn < epsilon
        delta = 0.0 if pure <= epsilon else situation.delta
    if math.isinf(epsilon):
        of_kind = situation.delta == 0 and proof.kind != ""
        how = f"{proof.kind} noise has no epsilon at delta 0" if of_kind else f"{proof.how}: too little"
        return UpperBound(epsilon=math.inf, delta=situation.delta, how=how)
    how = proof.how
    if rounds > 1:
        how += f"; {rounds} rounds compose"
    elif situation.rounds > 1 and not proof.whole:
        how += f"; a{'n' * (situation.unit == 'interaction')} {situation.unit} is part of one round"
    if sometimes:
        how += f", each with {100 * situation.sampled:.3g} % of the clients, known to the observer"
    elif proof.share < 1:
        how += f"; amplified by a secret sample of {100 * proof.share:.3g} %"
    return UpperBound(epsilon=epsilon, delta=delta, how=how, rests_on=proof.rests_on)


def _sometimes(loss: PrivacyLoss, delta: float, situation: AccountingContext) -> float:
    """Epsilon of a client that takes part in some rounds, known to the observer; infinite if in any.

    With a separation of b rounds a client may take part in every b-th round.
    """
    drawn = situation.cohorts != "any" and situation.sampled < 1 and situation.touched == situation.turns
    if not drawn or not situation.recurs:
        return math.inf
    return loss.epsilon_sometimes(situation.touched, delta, situation.sampled)


def run_bound(events: Sequence[PrivacyEvent], situation: AccountingContext) -> RunBound:
    """What the events of a chain prove for all rounds of a situation, see `upper_bound`.

    Where nothing is proven for a client, because lists or queries reveal it, the bound is for the unit
    `query`: it allows for every interaction of every round, and so for all clicks of one client.
    """
    found = _bound_of_view(events, situation)
    if math.isinf(found.upper.epsilon) and situation.unit == "client":
        clicks = _bound_of_view(events, replace(situation, unit="query"))
        return clicks if math.isfinite(clicks.upper.epsilon) else found
    return found


def _bound_of_view(events: Sequence[PrivacyEvent], situation: AccountingContext) -> RunBound:
    upper = always = upper_bound(events, situation)
    if situation.sampled < 1 and situation.cohorts != "any":
        always = upper_bound(events, replace(situation, cohorts="any"))
    return RunBound(
        unit=situation.unit, rounds=situation.rounds, sampled=situation.sampled, upper=upper, always=always
    )
