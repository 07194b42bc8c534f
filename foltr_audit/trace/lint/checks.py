"""What every check of the lint has in common, and the checks that compare no noise with its law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError
from foltr_audit.recorder.messages import KEY_SHARES, SEED_SHARES
from foltr_audit.recorder.trace_format import FLOWER_MASKS
from foltr_audit.trace.declared_header import NoiseDeclaration
from foltr_audit.trace.header import TraceHeader
from foltr_audit.utils.arrays import Bools, Floats, Ints

STILL = 2.0**-40
"""A coordinate is unchanged where it moves by at most this share of the largest move of its column."""

ENOUGH_BITS = 128
"""Bits of a seed that nobody can guess, see Barker 2020, NIST SP 800-57 part 1, table 2."""

Severity = Literal["leak", "note"]

_LARGEST = 1e300  # differences of two such numbers do not overflow
_COARSE = 0.1


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    """One thing that messages reveal: a leak, or a note that tells nothing about one client on its own.

    Counts are of the rounds and messages concerned, `share` is of all that were looked at, and `example` one
    place, e.g. `round 3, message 17`.
    """

    check: str
    severity: Severity
    text: str
    rounds: int
    messages: int
    share: float | None = None
    of: Literal["messages", "coordinates"] | None = None
    example: str | None = None


@dataclass(frozen=True, kw_only=True)
class CoverageGap:
    """Something that a check did not look at, as it follows these words, and the reason."""

    part: str
    why: str


class FindingTally:
    """Counts messages concerned, of those looked at, and keeps the first place."""

    def __init__(self) -> None:
        self.rounds = self.hits = self.looked = 0
        self.example: str | None = None

    def add(self, hits: int, looked: int, place: str) -> None:
        self.hits += hits
        self.looked += looked
        self.rounds += hits > 0
        if hits and self.example is None:
            self.example = place

    def messages_of(self, round_: int, which: Bools) -> None:
        """Take the messages (M,) of a round for which something holds."""
        self.add(int(which.sum()), which.size, f"round {round_}, message {which.argmax()}")


class ServerView:
    """What an honest-but-curious server sees of one round; M messages of P numbers, none of it truth."""

    def __init__(self, record: RoundRecord, kind: str) -> None:
        self.record, self.round = record, record.round
        self.messages, self.survivors = record.messages, record.survivors
        self.is_update = kind == "update"
        if not np.all(np.isfinite(record.parameters)):
            raise TraceError(f"trace: round {self.round}: the global model is not finite")
        if self.is_real and not np.all(np.isfinite(self.messages)):
            row = int(np.argmin(np.isfinite(self.messages).all(axis=1)))
            raise TraceError(f"trace: round {self.round}, message {row}: holds a value that is not finite")

    @property
    def is_real(self) -> bool:
        """Whether messages are real numbers, not masked integers."""
        return bool(self.messages.dtype.kind == "f")

    @cached_property
    def start(self) -> Floats:
        """The message without any change, in its number format, (P,)."""
        with np.errstate(over="ignore"):
            start = self.record.parameters.astype(self.messages.dtype).astype(np.float64)
        return np.zeros_like(start) if self.is_update else start

    @cached_property
    def residuals(self) -> Floats:
        """Each message minus the one without any change, (M, P)."""
        with np.errstate(over="ignore"):
            return np.clip(self.messages.astype(np.float64) - self.start, -_LARGEST, _LARGEST)

    @cached_property
    def silent(self) -> Bools:
        """Messages that change nothing at all, (M,).

        Bit for bit; or nearly, since noise of 1e-100 on an update of 0 can be seen through just as well.
        """
        size = np.abs(self.residuals)
        return np.asarray((size <= STILL * size.max(axis=0, initial=0.0)).all(axis=1))

    @cached_property
    def levels(self) -> Ints:
        """How many different moves each message makes, up to one millionth of its largest, (M,)."""
        size = np.abs(self.residuals).max(axis=1, initial=0.0, keepdims=True)
        moves = np.sort(self.residuals / np.where(size > 0, size, 1.0), axis=1)
        moves = np.where(np.abs(moves) <= STILL, 0.0, moves)
        return np.asarray(1 + (np.diff(moves, axis=1) > 1e-6).sum(axis=1))

    @cached_property
    def rows(self) -> NDArray[np.void]:
        """Each message as one value of bytes, (M,): equal where messages are equal bit for bit."""
        rows = np.ascontiguousarray(self.messages)
        return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)

    @cached_property
    def resolution(self) -> float:
        """Distance of neighbouring numbers at the largest of the round, in its number format."""
        most = max(np.abs(self.messages).max(initial=0.0), np.abs(self.start).max(initial=0.0))
        return float(np.spacing(np.minimum(most, 1e30).astype(self.messages.dtype)))

    def is_too_coarse(self, size: float) -> bool:
        """Whether rounding to the number format may move numbers of this size by more than a tenth."""
        return self.resolution > _COARSE * size


Findings = Iterator[LintFinding]
Gaps = Iterator[CoverageGap]


class LintCheck:
    """Looks at the rounds of one trace one after the other, then says what it found.

    `tells` says what the server learns from it, in a few words.
    """

    name: ClassVar[str]
    tells: ClassVar[str]

    def __init__(self, header: TraceHeader, declared: NoiseDeclaration) -> None:
        self.header = header
        self.declared = declared
        self.rounds = self.messages = 0
        self.start()

    def start(self) -> None:
        """Make the tallies of the check."""

    def not_applicable(self) -> str | None:
        """Why the trace with this header holds nothing to look at; None where it does."""
        return None

    def why_not(self) -> str | None:
        """Why this cannot be looked for in the trace with this header; None where it can."""
        return None

    def take(self, seen: ServerView) -> None:
        self.rounds += 1
        self.messages += seen.messages.shape[0]
        self.look(seen)

    def look(self, seen: ServerView) -> None:
        """Look at one round, which `rounds` and `messages` count already."""
        raise NotImplementedError

    def findings(self) -> Findings:
        raise NotImplementedError

    def gaps(self) -> Gaps:
        """What was not looked at in the rounds taken."""
        yield from ()

    def power(self) -> str | None:
        """The smallest fault that would have been found, in a few words; None where it is not known."""
        return None

    def finding(self, text: str, severity: Severity = "leak", **facts: Any) -> LintFinding:
        """A finding, in all rounds and messages taken where the facts do not say another number."""
        facts = {"rounds": self.rounds, "messages": self.messages} | facts
        return LintFinding(check=self.name, severity=severity, text=text, **facts)

    def counted(self, tally: FindingTally, text: str, severity: Severity = "leak") -> LintFinding:
        facts = {"rounds": tally.rounds, "messages": tally.hits, "example": tally.example, "of": "messages"}
        return self.finding(text, severity, share=tally.hits / max(1, tally.looked), **facts)


def number(count: int, what: str) -> str:
    """A count with its noun, e.g. `1 message`, `3 messages`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


class ClearMetricCheck(LintCheck):
    """Metrics of the clients of one round, by name: whether they tell clients apart."""

    name = "clear-metrics"
    tells = "numbers about each client beside its message, such as its loss or its clicks"

    def start(self) -> None:
        self.tally, self.alike = FindingTally(), FindingTally()
        self.ends: dict[str, tuple[float, float]] = {}
        self.constant: dict[str, None] = {}

    def look(self, seen: ServerView) -> None:
        """Compare the values of each metric within a round.

        Clients without it count as another value, but for those whose message never arrived.
        """
        apart = np.zeros(seen.survivors.size, dtype=np.bool_)
        for name, values in seen.record.clear.items():
            if _differ(values[seen.survivors | np.isfinite(values)]):
                apart |= True
                known = values[np.isfinite(values)]
                low, high = self.ends.get(name, (np.inf, -np.inf))
                self.ends[name] = (min(low, known.min(initial=low)), max(high, known.max(initial=high)))
            else:
                self.constant[name] = None
        self.tally.messages_of(seen.round, apart)
        self.alike.messages_of(seen.round, np.full(apart.size, bool(seen.record.clear)) & ~apart)

    def findings(self) -> Findings:
        if self.tally.hits:
            ranges = ", ".join(f"{name} ({low:g} to {high:g})" for name, (low, high) in self.ends.items())
            beside = "masked messages" if self.header.kind == "masked" else "the messages"
            text = (
                f"metrics travel in clear beside {beside} and differ within a round: {ranges}. The server "
                "reads them of each client, whatever covers its message."
            )
            yield self.counted(self.tally, text)
        same = [name for name in self.constant if name not in self.ends]
        if same:
            text = (
                f"metrics travel in clear, the same from all clients of a round: {', '.join(same)}. They "
                "reveal nothing about one client."
            )
            yield self.counted(self.alike, text, "note")


def _differ(values: Floats) -> bool:
    """Whether clients send different values, or some of them none; NaN stands for none."""
    known: Bools = np.isfinite(values)
    return bool(known.any()) and (not known.all() or bool(np.ptp(values) > 0))


class ClearFieldCheck(LintCheck):
    """Queries, shown lists, features and drop-outs; a header that declares no noise."""

    name = "clear-fields"
    tells = "what is not covered at all: queries, lists, drop-outs, messages without noise"

    def start(self) -> None:
        self.lost, self.failed = FindingTally(), FindingTally()
        self.listed_rounds = self.interactions = 0
        self.features = False

    def look(self, seen: ServerView) -> None:
        record = seen.record
        self.interactions += record.n_interactions
        self.listed_rounds += record.n_interactions > 0
        self.features |= record.features is not None and record.n_interactions > 0
        self.lost.messages_of(seen.round, ~seen.survivors)
        if record.cohort:
            failed = sum(each.outcome != "arrived" for each in record.cohort)
            self.failed.add(failed, len(record.cohort), f"round {seen.round}")

    def findings(self) -> Findings:
        if not self.rounds:
            return
        if self.header.kind != "masked" and self.declared.text is None:
            yield self._payload()
        if self.interactions:
            known = "as known to the server: with them it can look for the clicks that explain a message"
            if self.header.knowledge.get("lists_known") == "auditor":
                known = "for the auditor, and this server does not have them"
            what = "query, shown list and order of display"
            what += ", with the documents' features," if self.features else ""
            text = f"{what} of {number(self.interactions, 'interaction')} are recorded {known}."
            yield self.finding(text, "note", rounds=self.listed_rounds)
        if self.lost.hits:
            noise = "" if self.declared.text is None else "; the noise in them is missing from the sum"
            text = (
                f"{number(self.lost.hits, 'message')} did not enter the average, and the server knows which"
            )
            yield self.counted(self.lost, f"{text}{noise}.", "note")
        if self.failed.hits:
            text = (
                f"{number(self.failed.hits, 'request')} to clients, of {self.failed.looked:,}, had no "
                "answer: the server knows whose, and of those that failed why."
            )
            yield self.counted(self.failed, text, "note")

    def _payload(self) -> LintFinding:
        """What covers the payload where the header declares no noise law."""
        declared = self.declared
        chain = declared.chain or "not stated"
        text = "the header says nothing about noise: what covers the payload is unknown."
        if declared.in_clear:
            text = f"the payload itself travels in clear, without any noise (defenses: {chain})."
        elif declared.is_none:
            text = f"the header declares no noise law; this lint cannot judge whether {chain} hides enough."
        return self.finding(text, "leak" if declared.in_clear else "note", share=1.0, of="messages")


def _no_protocol(header: TraceHeader, simulated: str) -> str | None:
    """Why messages are not masked by a protocol of real clients; None where they are."""
    if header.kind != "masked":
        return "messages are not masked"
    return simulated if header.spec_hash else None


class MaskSeedCheck(LintCheck):
    """The length of the seeds that the header declares, fact `mask_seed_bits`.

    SecAgg+ of Flower 1.41 folds each secret, of 256 bits, into a seed of 32 bits for NumPy's `RandomState`
    (Flower issue 7522).
    """

    name = "mask-seeds"
    tells = "masks that follow from seeds short enough to try all of them"

    def not_applicable(self) -> str | None:
        return _no_protocol(self.header, "masks of a simulation do not come from secrets of clients")

    def why_not(self) -> str | None:
        if isinstance(self.header.knowledge.get("mask_seed_bits"), int):
            return None
        return "the header does not say how long the seeds of the masks are (fact mask_seed_bits)"

    def look(self, seen: ServerView) -> None:
        """Nothing in a message tells how its mask was made."""

    def findings(self) -> Findings:
        bits = self.header.knowledge.get("mask_seed_bits")
        if not isinstance(bits, int) or bits >= ENOUGH_BITS or not self.messages:
            return
        shares = self.header.knowledge.get("num_shares")
        others = number(shares - 1, "other") if isinstance(shares, int) and shares > 1 else "others"
        text = (
            f"the header says that every mask follows from a seed of {bits} bits, and {ENOUGH_BITS} are "
            f"needed: a server can try all 2^{bits}. It gets the seed of a client's own mask when it unmasks "
            f"the sum. What is left are the masks that the client shares with {others}: one falls "
            f"in 2^{bits} tries, two in as many tries and as much memory"
        )
        if self.header.masking == FLOWER_MASKS:
            text += (
                ". The weight of the message, its first word under the mask, is known: it confirms a guess"
            )
        yield self.finding(f"{number(self.messages, 'masked message')}: {text}.")


class ShareAnswerCheck(LintCheck):
    """Shares that were answered when a sum was unmasked.

    The seed of a client's own mask is for a message that arrived, the key of the masks that it shares with
    others for one that did not. Who has both takes all masks off one message.

    Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning",
    section 6.2.
    """

    name = "both-shares"
    tells = "clients of which the server got the shares of both secrets, and so can unmask alone"

    def start(self) -> None:
        self.tally = FindingTally()
        self.without = 0

    def not_applicable(self) -> str | None:
        return _no_protocol(self.header, "no shares are exchanged in a simulation")

    def look(self, seen: ServerView) -> None:
        """Compare whose shares of either secret were answered in a round."""
        owners = [
            {each.node for each in seen.record.cohort if each.stage == stage}
            for stage in (SEED_SHARES, KEY_SHARES)
        ]
        if not any(owners):
            self.without += 1
            return
        both = sorted(owners[0] & owners[1])
        self.tally.add(
            len(both), len(owners[0] | owners[1]), f"round {seen.round}, node {both[0] if both else ''}"
        )

    def gaps(self) -> Gaps:
        if self.without:
            part = f"{number(self.without, 'round')} of {self.rounds:,}"
            yield CoverageGap(part=part, why="the answers to the server's last request are not recorded")

    def findings(self) -> Findings:
        if self.tally.hits:
            text = (
                f"the server was given shares of both secrets of {number(self.tally.hits, 'client')}, of "
                f"{self.tally.looked:,} whose shares it asked for: with enough of them it takes all masks "
                "off their messages. The clients that hold the shares must refuse the second request."
            )
            yield self.counted(self.tally, text)
