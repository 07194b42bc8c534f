"""What the tool finds: one record for each result, made where it is known, and stored as it is.

Everything else is a query over these records: tables, JSON documents, limits, decisions and pages copy no
number. Three things are never mixed up: no record (not looked), a bound of infinity (nothing is proven, and
`how` says why), and a claim of None (nothing is claimed).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer

from foltr_audit.core.settings.audit import AuditView
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.privacy.bounds import RunBound, UpperBound
from foltr_audit.utils.formatting import json_ready

Interval = tuple[float, float]


class Estimate:
    """A number with its 95 % interval.

    Attributes:
        value: the number; NaN, which is null in JSON, where it is not defined.
        ci95: the ends of its interval; None without one.
        bounds: its one-sided 95 % bounds, which limits are held against; None without an interval.
    """

    def __init__(
        self, value: float, ci95: Interval | Callable[[float], Interval | None] | None = None
    ) -> None:
        """`ci95` may compute the interval when somebody asks for it, from the probability beyond each end."""
        self.value = value
        self._of_tail = cache(ci95) if callable(ci95) else None
        self._given = None if callable(ci95) else ci95

    @property
    def ci95(self) -> Interval | None:
        return self.ends(0.025)

    @property
    def bounds(self) -> Interval | None:
        return self.ends(0.05)

    def ends(self, tail: float) -> Interval | None:
        """Ends beyond each of which the true number lies with a probability of at most `tail`.

        Of an interval that was given they are its ends, whatever the tail.
        """
        return self._given if self._of_tail is None else self._of_tail(tail)

    @property
    def known(self) -> bool:
        return not math.isnan(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimate) and (self.value, self.ci95) == (other.value, other.ci95)

    def __hash__(self) -> int:
        return hash((self.value, self.ci95))

    def __repr__(self) -> str:
        return f"Estimate(value={self.value!r}, ci95={self.ci95!r})"

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, Interval | None]]:
        return Estimate, (self.value, self.ci95)  # what computes the interval stays in its process


UNKNOWN = Estimate(math.nan)
"""An estimate that is not defined."""

_LONGEST = 10_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _number(value: object) -> object:
    """A number; infinities are texts in JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        return value
    if value in ("inf", "-inf"):
        return float(str(value))
    raise ValueError("expected a number")


def _share(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise ValueError("expected a number from 0 to 1")
    return value


def _text(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("expected text without control characters")
    return value


def plain_text(text: str) -> str:
    """A text of unknown origin as a record stores it: short, and without control characters."""
    return _CONTROL.sub("?", text)[:_LONGEST]


def _different(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("expected different names")
    return values


def _warning(value: object) -> CodedWarning:
    return value if isinstance(value, CodedWarning) else CodedWarning.parse(str(value))


Text = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_text)]
Names = Annotated[tuple[Text, ...], AfterValidator(_different)]
Number = Annotated[float, BeforeValidator(_number)]
Share = Annotated[Number, AfterValidator(_share)]
Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Warned = Annotated[CodedWarning, BeforeValidator(_warning), PlainSerializer(str)]

State = Literal["as declared", "broken", "not looked", "nothing declared"]
"""Whether the links of a chain do what they declare, as far as tests show."""

Verdict = Literal[
    "proven", "not refuted", "false by exact loss", "refuted", "declared law broken", "contradiction"
]
"""The verdict on a claim, see `auditing.verdict`."""


class Record(BaseModel):
    """One result. Its fields are what is stored, in their order."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def line(self) -> str:
        """The record as a line of JSON; the same bytes for the same record."""
        return json.dumps(json_ready(self.model_dump()), allow_nan=False)


class RunRecord(Record):
    """What was run: one Spec.

    Attributes:
        run: hash of the Spec.
        learner: the learner with the parameters that are not at their default; `pdgd` its PDGD setting,
            `none` of another learner.
        trained_on: how the users of the training clicked.
        claim: epsilon of one round that the chain claims; None without a claim.
        per_round: interactions of a training round.
        groups: names of the groups of clients.
        population: the clients in numbers; None where they do not differ.
        warnings: incompatible defenses in the chain.
        code: hashes of the code of foltr-audit, and of each package of plug-ins that ran, by name; empty of a
            run that is not stored.
    """

    kind: Literal["run"] = "run"
    run: Digest
    learner: Text
    pdgd: Text
    trained_on: Text
    claim: Number | None
    per_round: Count
    groups: Names
    population: dict[str, JsonValue] | None
    warnings: tuple[Warned, ...]
    code: dict[Text, Digest] = Field(default_factory=dict)


class DataRecord(Record):
    """The data of a run: one fold. Of a trace without its data only what its header says is known.

    Attributes:
        source: name of the data.
        intents: number of intents of a query; None where there is one.
        intents_from: where they come from, see `Collection`.
        rows_read, rows_joined: rows of the files, and those whose intents are judged, which make up the data;
            None where no intents are joined.
        largest_label: highest grade; None where it is not known.
        parameters: number of parameters of the model, of a trace without its data.
        fingerprint: SHA-256 (hex) of the data.
        train, vali, test: number of queries of each part.
        test_without_relevant: queries of the test split without a relevant document.
    """

    kind: Literal["data"] = "data"
    source: Text
    intents: Count | None = None
    intents_from: Text | None = None
    rows_read: Count | None = None
    rows_joined: Count | None = None
    synthetic: bool
    normalised: Text
    features: Count | None
    largest_label: Count | None = None
    parameters: Count | None = None
    fold: Count
    fingerprint: Text
    train: Count | None = None
    vali: Count | None = None
    test: Count | None = None
    test_without_relevant: Count | None = None


class UtilityRecord(Record):
    """How good a trained model is, and what its training cost.

    Attributes:
        ndcg, untrained, ceiling: offline nDCG@10 of the trained model, of the first one, and of a perfect
            ranker; None where they are not known.
        validation: that of the trained model on the validation split; None where it was not evaluated.
        undefended: that of the same training without a defense; None if it was not trained.
        evaluated_on: which queries these are of.
        online_sum, online_mean: of the lists that users were shown; None of a recorded Run.
        maxrr_last: online MaxRR of the last ten rounds.
        clipped: share of the local steps that were clipped.
        bytes_per_client: that a client sends in a round; None where that is not known.
    """

    kind: Literal["utility"] = "utility"
    ndcg: Share | None
    untrained: Share | None = None
    ceiling: Share | None = None
    validation: Share | None = None
    undefended: Share | None = None
    evaluated_on: Text
    online_sum: Number | None = None
    online_mean: Share | None = None
    maxrr_last: Share | None = None
    clipped: Share | None = None
    bytes_per_client: Number | None = None


class ProofRecord(Record):
    """What is proven for one observer.

    Attributes:
        of: what the observer sees: the messages of one `round`, of `all rounds`, or the `attacked` ones.
        about: what the proof protects, in words.
        view: whose observations, of `observer_views.VIEWS`.
        unit: what neighbouring inputs differ in.
        interactions: behind a message; None where that is not known.
        rounds: rounds of messages that the proof covers.
        upper: the bound.
        auc: the largest AUC of any attack that tells neighbouring inputs apart; 1 where nothing is proven.
        whole_run: what is proven for all rounds of the run together; None where it was not computed.
    """

    kind: Literal["proof"] = "proof"
    of: Literal["round", "all rounds", "attacked"]
    about: Text = "one interaction"
    view: AuditView
    unit: Text
    interactions: Count | None = None
    rounds: Count
    upper: UpperBound
    auc: Share | None = None
    whole_run: RunBound | None = None


class LowerBound(Record):
    """What a game's trials show: the mechanism is not (e, delta)-DP for any e below `epsilon`.

    Attributes:
        estimator: its name.
        epsilon: the lower bound, finite, at least 0.
        ceiling: the lower bound that a perfect attack would show with the same number of trials.
        confidence: probability, over the trials, that the bound is right.
        delta: the delta that the bound is for.
        trials: evaluated trials per hypothesis.
        assumes: what the estimator assumes, in words; empty: nothing.
    """

    estimator: Text
    epsilon: Number
    ceiling: Number
    confidence: Number
    delta: Number
    trials: Count
    assumes: Text = ""


class AuditedClaim(Record):
    """What trials show of a claim.

    Attributes:
        claim: the claimed epsilon; None without a claim.
        delta: of the claim.
        lower, estimates: the lower bound of the trials, and those of all estimators for the same trials.
        score: the score that told the inputs apart.
        verdict, why: see `auditing.verdict.verdict_on`.
    """

    claim: Number | None
    delta: Number
    lower: LowerBound
    estimates: tuple[LowerBound, ...]
    score: Text
    verdict: Verdict
    why: Text

    @property
    def eps_claimed(self) -> float:
        """The claimed epsilon; infinite without a claim, as in documents."""
        return math.inf if self.claim is None else self.claim


class AuditRecord(AuditedClaim):
    """What an audit found of one claim of a chain: one view, one unit, one canary.

    Attributes:
        view, unit, canary: what is audited, by their names.
        colluders: for view `colluding`, how many other clients collude; None for all, and for other views.
        pair: the two inputs in words.
        model: the global models that the client starts from: `first`, `trained`, or `rounds` for one of a
            round each, along the run.
        interactions, messages: interactions behind a message, and messages of the client that are pooled; the
            claim is of all of them together.
        upper, whole_run: what is proven for these messages, and for all rounds of the training run.
        exact: the privacy loss of this pair; None where it has no formula.
        declared, declared_why: whether links do what they declare, and which do not or could not be tested.
    """

    kind: Literal["audit"] = "audit"
    view: AuditView
    unit: Text
    canary: Text
    colluders: Count | None
    pair: Text
    model: Text
    interactions: Count
    messages: Count
    upper: UpperBound
    whole_run: RunBound
    exact: Number | None
    declared: State
    declared_why: Text


class FunctionRecord(AuditedClaim):
    """What trials show of a function on one pair of inputs.

    Attributes:
        function: its name.
        repeats: why its noise repeats, in words; empty where nothing says so.
        warnings: what a reader should know apart from the verdict.
    """

    kind: Literal["function"] = "function"
    function: Text
    repeats: Text
    warnings: tuple[Warned, ...]


class EvidenceRecord(Record):
    """What describes the arrays of judged lists, see `judge.click_evidence.ClickEvidence`."""

    kind: Literal["evidence"] = "evidence"
    click_model: Text
    view: Text
    guessed: Names
    surprised: Names
    baselines: Names
    probabilities: Names
    exact: Names
    same_message: Annotated[bool, Field(strict=True)]
    groups: Annotated[Names, Field(min_length=1)]
    refused: dict[Text, Text]
    steps: Count
    clipped: Count
    too_short: Count = 0


class AttackRecord(Record):
    """How well one method does one task on pooled evidence, for all clients or for one group.

    Attributes:
        task: what is inferred: `clicks` (also of a group), `clicks by place`, `any click`, `bits`,
            `calibration`, `query`, `intent`, `client`, `counts`, `participant`, or that of another package.
        method: label of the attack, or name of a guess.
        role: an `attack`, a `guess` without a message, or a guess that `knows grades`; None for a task
            without guesses of its own.
        strongest, needs: whether an attack weighs all that it is told, and the knowledge that it needs.
        group, place: a group of clients and its place, the one hit hardest being 1; None for all clients.
        counts: what was judged, by name.
        metrics: how well, by name; of an attack on clicks also `above_guess` and `above_grades`, its AUC less
            that of the best guess that does not know the grades of documents, and of the best that does.
        everybody, differences: of a group, the metrics of all clients, and how far its own differ.
        ceiling: the most that any attack can reach, by metric; a metric that is missing is not bounded.
        more: further facts, by name; of an attack on clicks `guess` and `grades`, the best guess of each
            kind, `guess_auc` and `grades_auc`.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    kind: Literal["attack"] = "attack"
    task: str
    method: str
    role: Literal["attack", "guess", "knows grades"] | None = "attack"
    strongest: bool = False
    needs: frozenset[str] = frozenset()
    group: str | None = None
    place: int | None = None
    counts: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, Estimate] = Field(default_factory=dict)
    everybody: dict[str, float] = Field(default_factory=dict)
    differences: dict[str, Estimate] = Field(default_factory=dict)
    ceiling: dict[str, float] = Field(default_factory=dict)
    more: dict[str, Any] = Field(default_factory=dict)

    @property
    def baseline(self) -> bool | None:
        """Whether it reads no message; None for a task without guesses of its own."""
        return None if self.role is None else self.role != "attack"

    def metric(self, name: str) -> Estimate:
        """A metric; not defined where it was not taken."""
        return self.metrics.get(name, UNKNOWN)


class GapRecord(Record):
    """What could not be done, and why.

    Attributes:
        what: an attack was `refused`, there was `nothing to read`, or a cell `failed`.
        run: hash of the Spec.
        method: the attack, if it is about one.
        exit_code: of a failed cell.
    """

    kind: Literal["gap"] = "gap"
    what: Literal["refused", "nothing to read", "failed"]
    run: Digest | None = None
    method: Text = ""
    why: Text
    exit_code: Count = 0


AnyRecord = Annotated[
    RunRecord | DataRecord | UtilityRecord | ProofRecord | AuditRecord | EvidenceRecord | GapRecord,
    Field(discriminator="kind"),
]
"""What is stored; records of attacks are computed from stored evidence, since pools are no means."""
