"""Attempts that use the shares of secrets which clients give to the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt, outcome
from foltr_audit.auditing.protocol_stress.staged_round import ShareHolders, StagedRound
from foltr_audit.utils.arrays import Bools, Floats

DropStage = Literal["before keys", "after keys", "before unmasking"]

BONAWITZ = "Bonawitz et al. 2017, section 6"
BELL = "Bell et al. 2020, section 4"
_ONE_KIND = "at most one kind of share per client and round (once=true)"


def honest_look(stage: StagedRound) -> ProtocolAttempt:
    """The server follows the protocol and decodes the masked message of one client."""
    found = stage.decode(stage.result.payload[stage.target])
    return ProtocolAttempt(
        name="look at a message",
        actor="honest-but-curious server",
        does="decodes the masked message of one client",
        sent=f"{stage.clients} messages of {found.size} words",
        outcome=outcome(stage.reveals(found)),
        learnt=told(stage, found),
        promised=True,
        source="Bonawitz et al. 2017, section 4",
    )


def both_shares(stage: StagedRound) -> ProtocolAttempt:
    """The server asks the neighbours of one client for the shares of both of its secrets."""
    asked = ShareHolders(stage, one_kind=stage.once)
    found = _without_masks(asked, halves=False)
    refused = _without_masks(ShareHolders(stage, one_kind=True), halves=False)
    return ProtocolAttempt(
        name="both shares",
        actor="active server",
        does="asks all neighbours of one client for shares of its seed and of its pair key",
        sent=_shares(asked),
        outcome=outcome(stage.reveals(found)),
        learnt=told(stage, found),
        promised=stage.once,
        answer=None if stage.once else _ONE_KIND,
        with_answer=None if stage.once else outcome(stage.reveals(refused)),
        source=BONAWITZ,
    )


def split_lists(stage: StagedRound, *, half: bool) -> ProtocolAttempt:
    """The server calls one client alive to half of its neighbours and dropped out to the others.

    Every neighbour gives one kind of share only. With a threshold of at most half both secrets are open. A
    colluding neighbour gives both kinds: against k of them the threshold must exceed half by k/2.
    """
    degree = stage.graph.degree
    tried = replace(stage, threshold=max(1, degree // 2)) if half else stage
    asked = ShareHolders(tried, one_kind=True)
    found = _without_masks(asked, halves=True)
    above = 2 * degree // 3 + 1
    raised = _without_masks(
        ShareHolders(replace(stage, threshold=min(above, degree)), one_kind=True), halves=True
    )
    return ProtocolAttempt(
        name="two lists, threshold at half" if half else "two lists",
        actor="active server",
        does="tells half of a client's neighbours that it is alive and the others that it dropped out; each "
        "gives one kind of share",
        sent=_shares(asked),
        outcome=outcome(tried.reveals(found)),
        learnt=told(tried, found),
        promised=False,
        answer=f"a threshold above two thirds of the neighbours ({min(above, degree)} of {degree}), or a "
        "list of survivors that all clients sign",
        with_answer=outcome(stage.reveals(raised)),
        source=f"{BONAWITZ}; {BELL}",
    )


def replay(stage: StagedRound) -> ProtocolAttempt:
    """The server unmasks a round twice, the second time without one client."""
    asked = ShareHolders(stage, one_kind=stage.once)
    found = _difference(asked)
    refused = _difference(ShareHolders(stage, one_kind=True))
    return ProtocolAttempt(
        name="replayed round",
        actor="active server",
        does="unmasks the same round again without one client, and subtracts the sums",
        sent=_shares(asked),
        outcome=outcome(stage.reveals(found)),
        learnt=told(stage, found),
        promised=stage.once,
        answer=None if stage.once else f"{_ONE_KIND}, or one signed list of survivors per round",
        with_answer=None if stage.once else outcome(stage.reveals(refused)),
        source=BONAWITZ,
    )


def drop_out(stage: StagedRound, when: DropStage) -> ProtocolAttempt:
    """A tenth of the clients drop out; the server takes off one message all masks that it came to know.

    Those are the mask of the client's own seed, whose shares are given for every survivor, and its masks
    with those that dropped out after sharing keys. After keys it is such a client that is attacked: its
    message arrives late, when the server has its pair key.
    """
    missing = _missing(stage)
    tried = replace(stage, absent=missing) if when == "before keys" else stage
    listed = ~missing if when != "before unmasking" else ~tried.absent
    asked = ShareHolders(tried)
    stops = _aborts(tried, listed)
    words = None if stops else asked.total(listed, ~missing)
    victim = int(np.flatnonzero(missing)[0]) if when == "after keys" else tried.target
    tried = replace(tried, target=victim)
    if stops:  # before any client was asked for a share
        found = tried.decode(tried.result.payload[victim])
    else:
        found = _with_given_shares(asked, tried, listed, missing)
    exact = True
    if words is not None:
        codes = tried.protocol.encoding.encode(tried.values, tried.weights)[listed]
        true = tried.decode(codes.sum(axis=0, dtype=np.uint64))
        exact = bool(np.array_equal(tried.decode(words), true))
    many = int(missing.sum())
    result = "the round aborts" if words is None else f"the sum of {int(listed.sum())} is exact"
    if not exact:
        result = "the sum is wrong"
    return ProtocolAttempt(
        name=f"drop-out {when}",
        actor="honest-but-curious server",
        does="takes all masks that it knows off "
        + ("a message that arrives late" if when == "after keys" else "the message of one survivor"),
        sent=f"{many} of {stage.clients} clients drop out; {_shares(asked, victim)}",
        outcome=outcome(tried.reveals(found) or not exact),
        learnt=f"{result}; {told(tried, found)}",
        promised=True,
        source="Bonawitz et al. 2017, section 4",
    )


def told(stage: StagedRound, found: Floats | None, what: str = "the message", *, roundings: int = 1) -> str:
    """What the server computed, next to the truth."""
    if found is None:
        return "nothing: too few shares"
    if stage.reveals(found, roundings=roundings):
        return (
            f"{what} of client {stage.streams.clients[stage.target]}, with an error of {stage.off(found):.2g}"
        )
    return f"noise, up to {stage.off(found):.2g} from {what}"


def _without_masks(asked: ShareHolders, *, halves: bool) -> Floats | None:
    """The target's message, if the shares given open both of its secrets."""
    stage, place = asked.round, asked.round.target
    near = stage.neighbours(place)
    first, second = (near[: len(near) // 2], near[len(near) // 2 :]) if halves else (near, near)
    seed, key = asked.secret(place, "self", first), asked.secret(place, "pair", second)
    if seed is None or key is None:
        return None
    return stage.decode(
        stage.result.payload[place] - stage.own_mask(seed) - stage.pair_masks(place, key, near)
    )


def _difference(asked: ShareHolders) -> Floats | None:
    stage = asked.round
    everybody = ~stage.absent
    without = everybody.copy()
    without[stage.target] = False
    first, second = asked.total(everybody, everybody), asked.total(without, without)
    return None if first is None or second is None else stage.decode(first - second)


def _aborts(stage: StagedRound, listed: Bools) -> bool:
    """Whether a server that follows the protocol asks for no shares, as `MaskRecovery.why_not` says."""
    fewest = stage.protocol.plan(stage.clients).at_least
    return int(listed.sum()) < fewest or stage.graph.groups(listed) > 1


def _with_given_shares(
    asked: ShareHolders,
    stage: StagedRound,
    listed: Bools,
    missing: Bools,
) -> Floats:
    """The target's message without the masks that the server can compute from shares of an honest round."""
    place = stage.target
    near, words = stage.neighbours(place), stage.result.payload[place]
    answering = [other for other in near if not missing[other]]
    if listed[place]:
        seed = asked.secret(place, "self", answering)
        words = words if seed is None else words - stage.own_mask(seed)
        known = [other for other in near if not listed[other]]
        return stage.decode(words - stage.pair_masks(place, stage.private(place).private, known))
    key = asked.secret(place, "pair", answering)
    return stage.decode(words if key is None else words - stage.pair_masks(place, key, near))


def _missing(stage: StagedRound) -> Bools:
    """A tenth of the clients, at least one, which are not the target."""
    missing = np.zeros(stage.clients, dtype=np.bool_)
    others = [place for place in range(stage.clients) if place != stage.target]
    missing[others[: max(1, stage.clients // 10)]] = True
    return missing


def _shares(asked: ShareHolders, owner: int | None = None) -> str:
    place = asked.round.target if owner is None else owner
    mine, pair = asked.count(place, "self"), asked.count(place, "pair")
    return f"{mine} shares of its seed and {pair} of its pair key ({asked.round.needed} needed of each)"
