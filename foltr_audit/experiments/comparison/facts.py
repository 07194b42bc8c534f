"""The facts of a stored cell, checked before anything uses them: a cell may come from an untrusted source."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from foltr_audit.auditing.declarations import State
from foltr_audit.auditing.verdict import Verdict
from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.audit import AuditView
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_codes import CodedWarning
from foltr_audit.errors import TraceError, shorten_value
from foltr_audit.experiments.data_facts import DataFacts
from foltr_audit.utils.reading import file_bytes, json_table

FACTS = "cell.json"
SCHEMA = "foltr-audit/cell/1"

MOST_FACTS_BYTES = 64 << 20
"""A longer file of facts is not read."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_FINITE = ("inf", "-inf", "nan")


def _number(value: object) -> object:
    """A number; one that is not finite is a text in JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if value in _NOT_FINITE:
        return float(str(value))
    raise ValueError("expected a number")


def _text(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("expected text without control characters")
    return value


def _different(values: list[str]) -> list[str]:
    if len(set(values)) < len(values):
        raise ValueError("expected different names")
    return values


Text = Annotated[str, Field(max_length=10_000), AfterValidator(_text)]
Names = Annotated[list[Text], AfterValidator(_different)]
Warned = Annotated[Text, AfterValidator(lambda line: str(CodedWarning.parse(line)))]
Number = Annotated[float, BeforeValidator(_number)]
Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _share(value: float) -> float:
    if value < 0 or value > 1:  # NaN passes: the share is not defined
        raise ValueError("expected a number from 0 to 1")
    return value


Share = Annotated[Number, AfterValidator(_share)]


class _FactTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class CellDataFacts(_FactTable):
    """The data of a cell, as `DataFacts`."""

    source: Text
    synthetic: bool
    normalised: Text
    features: Count
    fold: Count
    fingerprint: Text
    train: Count
    vali: Count
    test: Count
    test_without_relevant: Count
    intents: Count | None = None
    intents_from: Text | None = None
    rows_read: Count | None = None
    rows_joined: Count | None = None

    def row(self) -> DataFacts:
        """The same as a row of a report."""
        return DataFacts(**self.model_dump())


class UpperBoundFacts(_FactTable):
    """A proven epsilon, as `accounting.UpperBound`."""

    epsilon: Number
    delta: Number
    how: Text


class RunBoundFacts(_FactTable):
    """What is proven for all rounds together, as `accounting.RunBound`."""

    unit: Text
    rounds: Count
    sampled: Share
    upper: UpperBoundFacts
    always: UpperBoundFacts


class ProvenAucFacts(_FactTable):
    """The largest AUC of any attack on a click, by the proof of one interaction.

    Attributes:
        view: whose observations.
        interactions: behind a message.
        auc: of documents that are equally likely clicked; 1 where nothing is proven.
        how: how the epsilon is proven, or why none is.
    """

    view: AuditView
    interactions: Count
    auc: Share
    how: Text


class LowerBoundFacts(_FactTable):
    """A measured epsilon, as `estimators.LowerBound`."""

    estimator: Text
    epsilon: Number
    ceiling: Number
    confidence: Number
    delta: Number
    trials: Count
    assumes: Text


class AuditFacts(_FactTable):
    """What an audit found of one claim, as `auditing.AuditResult`."""

    view: AuditView
    unit: Text
    canary: Text
    colluders: Count | None
    about: Text
    model: Text
    interactions: Count
    messages: Count
    eps_claimed: Number
    delta: Number
    upper: UpperBoundFacts
    run: RunBoundFacts
    exact: Number | None
    lower: LowerBoundFacts
    estimates: list[LowerBoundFacts]
    score: Text
    declared: State
    declared_why: Text
    verdict: Verdict
    why: Text


class EvidenceFacts(_FactTable):
    """The facts of judged lists that are no arrays, as in `ClickEvidence`."""

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


class CellFacts(_FactTable):
    """The facts of a cell: what was run, and what it found as far as that is no array.

    Attributes:
        schema_: name and version of the file.
        spec_sha256, arrays_sha256: digests of its Spec and of its arrays.
        eps_claimed: the epsilon that its chain claims for one round.
        learner, pdgd: its learner with the parameters that are not at their default, and its PDGD setting.
        data: its data.
        warnings: incompatible defenses in its chain, each with its code.
        population: its population in numbers; None where clients do not differ.
        groups: names of the groups of clients.
        ndcg, untrained, ceiling, validation: offline nDCG@10 of the trained model, of an untrained one, of
            the ideal ranking, and of the trained one on the validation split.
        online_sum, online_mean: online nDCG@10 over rounds.
        clipped: share of the steps that were clipped.
        too_short: attacked queries that were left out for having too few documents.
        bytes_per_client: that a client sends in a round; None where that is not known.
        findings: what the audit of its claim found; empty without one.
        proven_aucs: what is proven of its messages, by view.
        attacked_auc: the same of the attacked messages, for the observer of the attacks; None without one.
        evidence: of its judged lists; None without an attack.
        unread: why its attacks had nothing to read; empty where they had.
    """

    schema_: Literal["foltr-audit/cell/1"] = Field(alias="schema")
    spec_sha256: Digest
    arrays_sha256: Digest
    eps_claimed: Number
    learner: Text
    pdgd: Text
    data: CellDataFacts
    warnings: list[Warned]
    population: dict[str, JsonValue] | None
    groups: Names
    ndcg: Share = Field(alias="ndcg@10")
    untrained: Share = Field(alias="ndcg@10_untrained")
    ceiling: Share = Field(alias="ndcg@10_ceiling")
    validation: Share = Field(alias="ndcg@10_validation")
    online_sum: Number
    online_mean: Share
    clipped: Share
    too_short: Count
    bytes_per_client: Number | None
    findings: list[AuditFacts]
    proven_aucs: list[ProvenAucFacts]
    attacked_auc: ProvenAucFacts | None
    evidence: EvidenceFacts | None = None
    unread: Text = ""

    def text(self) -> str:
        """The text of the file; the same bytes for the same facts."""
        return (
            json.dumps(_plain(self.model_dump(by_alias=True, exclude_unset=True)), indent=1, sort_keys=True)
            + "\n"
        )


def _plain(value: object) -> object:
    """A value for JSON, infinities and NaN as texts that `float` reads (unlike those of `json_ready`)."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def read_facts(folder: Path, spec: Spec) -> CellFacts:
    """The facts of a finished cell.

    Raises:
        TraceError: they are damaged, or of another Spec or schema.
    """
    path = folder / FACTS
    table = json_table(file_bytes(path, TraceError, MOST_FACTS_BYTES), str(path), TraceError)
    if table.get("schema", SCHEMA) != SCHEMA:
        raise TraceError(f"{path}: schema {shorten_value(table['schema'])!r}; expected {SCHEMA!r}")
    try:
        facts = CellFacts.model_validate(table)
    except ValidationError as error:
        raise TraceError(
            f"{path}: damaged cell: {first_problem(error)}; delete it, then compare --resume runs it again"
        ) from error
    if facts.spec_sha256 != spec.hash:
        raise TraceError(f"{path}: made by another Spec than {spec.hash[:12]}")
    return facts
