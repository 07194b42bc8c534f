"""What is stored of one cell of a comparison: plain facts and arrays, enough for every table and picture.

```
spec.toml     the Spec, canonical
cell.json     facts, and the SHA-256 of the arrays
arrays.npz    metrics of the rounds, nDCG by query, judged lists
```
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from foltr_audit.core.ranking_metrics import OFFLINE_NDCG, ONLINE_NDCG
from foltr_audit.core.results import AuditRecord, DataRecord, Warned
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditView
from foltr_audit.core.settings.defaults import DELTA, UNIT
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import TraceError, first_problem, shorten_value
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.folder import SPEC
from foltr_audit.judge.click_evidence import PER_LIST, ClickEvidence, ClickGuesses
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.observer_views import VIEWS, attacked_view
from foltr_audit.simulation.evaluation import OfflineMetrics
from foltr_audit.simulation.federation import Federation, bytes_per_client
from foltr_audit.simulation.privacy_description import PrivacyDescription
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.reading import file_bytes, json_table
from foltr_audit.utils.reading.arrays import MOST_UNPACKED, ArraySchema, read_archive, refuse_other_forms

# --- facts -----------------------------------------------------------------------------------------

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
    data: DataRecord
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
    findings: list[AuditRecord]
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


# --- what proofs leave to an attack ----------------------------------------------------------------


def system_aucs(privacy: PrivacyDescription) -> list[ProvenAucFacts]:
    """The AUC for each view, of the messages that clients send in a round; the observer sees all rounds.

    Noise that is correlated over rounds hides a click less from whoever also sees the sums of later rounds.
    """
    return [_proven_auc(privacy, view, privacy.clients.interactions) for view in VIEWS]


def attacked_auc(privacy: PrivacyDescription, attack: AttackSpec) -> ProvenAucFacts | None:
    """The AUC for the observer and the messages of an attack protocol; None where it attacks sums.

    An attack makes these sums itself, of other messages than a round has.
    """
    if attack.sums:
        return None
    fresh = attack.target == "fresh"
    return _proven_auc(
        privacy,
        attacked_view(attack.view, attack.hide),
        attack.interactions if fresh else privacy.clients.interactions,
    )


def _proven_auc(privacy: PrivacyDescription, view: str, interactions: int) -> ProvenAucFacts:
    once = privacy.situation(view, UNIT, interactions=interactions)
    promise = ProvenPromise.of(privacy.events(), privacy.in_all_rounds(once), DELTA)
    return ProvenAucFacts.model_validate(
        {
            "view": view,
            "interactions": interactions,
            "auc": promise.curve.auc,
            "how": promise.upper.how,
        }
    )


# --- arrays ----------------------------------------------------------------------------------------

ARRAYS = "arrays.npz"
ROUNDS = "rounds/"
LISTS = ("lists/", "guessed/")
"""Prefixes of the arrays that have a row for every attacked list."""

Arrays = dict[str, NDArray[Any]]

_MOST = 2.0**40  # counts of a stored file above this are damage, and are refused before anything is allocated
_GUESSED = tuple(each.name for each in fields(ClickGuesses))
_FORMS = {
    r"rounds/.+": ArraySchema("f8", "T"),
    r"query_ndcg": ArraySchema("f8", "Q", 0, 1),
    r"validation_ndcg": ArraySchema("f8", "V", 0, 1),
    r"lists/query": ArraySchema("U", "L"),
    r"lists/(message|rank|unknowns|group)": ArraySchema("i8", "L", 0, _MOST),
    r"lists/shown": ArraySchema("i8", "Lk", -1, _MOST),
    r"lists/(clicks|observed|told)": ArraySchema("b1", "Lk"),
    r"lists/surprisal": ArraySchema("f8", "L"),
    r"guessed/\d+/scores": ArraySchema("f8", "Lk"),
    r"guessed/\d+/guess": ArraySchema("b1", "Lk"),
    r"guessed/\d+/(any_click|surprisal)": ArraySchema("f8", "L"),
}
_CURVES = ("round", ONLINE_NDCG, OFFLINE_NDCG)
"""Metrics that every cell has for each round."""


def read_arrays(content: bytes | Path, where: str = ARRAYS) -> Arrays:
    """The arrays of a cell, of a file or its content.

    Raises:
        TraceError: it holds other arrays, or would unpack to far more than its size.
    """
    arrays = read_archive(content, where, TraceError)
    try:
        refuse_other_forms(arrays, _FORMS)
    except ValueError as error:
        raise TraceError(f"{where}: damaged: {error}") from error
    return arrays


def arrays_of(evidence: ClickEvidence) -> Arrays:
    """Judged lists and guesses as arrays."""
    found: Arrays = {f"lists/{name}": getattr(evidence, name) for name in PER_LIST}
    for number, guessed in enumerate(evidence.guessed.values()):
        for name in _GUESSED:
            values = getattr(guessed, name)
            if values is not None:
                found[f"guessed/{number}/{name}"] = values
    return found


def rounds_in(arrays: Mapping[str, NDArray[Any]], number: int) -> dict[str, Floats]:
    """Metrics of the training rounds by name, float64 (T,) each.

    Raises:
        ValueError: they are not of `number` rounds, or one that every cell has is missing.
    """
    rounds = {name.removeprefix(ROUNDS): arrays[name] for name in arrays if name.startswith(ROUNDS)}
    missing = [name for name in _CURVES if name not in rounds]
    if missing:
        raise ValueError(f"{ROUNDS}{missing[0]}: missing")
    if not np.array_equal(rounds["round"], np.arange(number)):
        raise ValueError(f"{ROUNDS}round: expected the {number} rounds of the Spec")
    for name in _CURVES[1:]:
        if np.any((rounds[name] < 0) | (rounds[name] > 1)):
            raise ValueError(f"{ROUNDS}{name}: a value outside of 0 to 1")
    return rounds


def evidence_in(arrays: Mapping[str, NDArray[Any]], described: EvidenceFacts) -> ClickEvidence:
    """Judged lists and guesses from arrays and their facts.

    Raises:
        ValueError: an array is missing or unexpected, or two do not fit each other.
    """
    expected = {f"lists/{name}" for name in PER_LIST}
    for number, label in enumerate(described.guessed):
        absent = set() if label in described.surprised else {"surprisal"}
        expected |= {f"guessed/{number}/{name}" for name in _GUESSED if name not in absent}
    there = {name for name in arrays if name.startswith(LISTS)}
    if there != expected:
        odd = min(there ^ expected)
        raise ValueError(f"{odd}: {'missing' if odd in expected else 'not expected'}")
    lists = {name: arrays[f"lists/{name}"] for name in PER_LIST}
    _refuse_odd_lists(lists, len(described.groups))
    guessed = {
        label: ClickGuesses(**{name: arrays.get(f"guessed/{number}/{name}") for name in _GUESSED})  # type: ignore[arg-type]
        for number, label in enumerate(described.guessed)
    }
    for label, one in guessed.items():
        if np.isnan(one.scores[lists["shown"] >= 0]).any():
            raise ValueError(f"scores of {label}: NaN for a document")
    return ClickEvidence(
        **lists,  # type: ignore[arg-type]
        guessed=guessed,
        baselines=frozenset(described.baselines),
        probabilities=frozenset(described.probabilities),
        exact=frozenset(described.exact),
        same_message=described.same_message,
        groups=tuple(described.groups),
        refused=described.refused,
        steps=described.steps,
        clipped=described.clipped,
    )


def _refuse_odd_lists(lists: Mapping[str, NDArray[Any]], groups: int) -> None:
    """Raise a `ValueError` for lists whose values do not fit each other."""
    shown, clicks = lists["shown"] >= 0, lists["clicks"]
    if np.any(shown[:, 1:] & ~shown[:, :-1]):
        raise ValueError("lists/shown: a document after the padding")
    if np.any(clicks & ~shown):
        raise ValueError("lists/clicks: a click where the list is padded")
    if lists["group"].max(initial=0) >= groups:
        raise ValueError(f"lists/group: {lists['group'].max()}; expected less than {groups}")


# --- the stored cell -------------------------------------------------------------------------------

Files = dict[str, bytes]
"""Contents by name; the last one is written last, so that a cell with that file is finished."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellRecord:
    """One finished cell.

    Attributes:
        spec: its Spec.
        facts: what was run and what it found, but for arrays.
        rounds: metrics of the training rounds by name, float64 (T,) each.
        query_ndcg: nDCG@10 of the trained model by evaluated query, float64 (Q,), NaN where it does not
            count.
        validation_ndcg: the same on the validation split.
        evidence: judged lists; None without an attack, or where it had nothing to read.
    """

    spec: Spec
    facts: CellFacts
    rounds: dict[str, Floats]
    query_ndcg: Floats
    validation_ndcg: Floats
    evidence: ClickEvidence | None


def pack_cell(cell: Run, setup: Setup) -> Files:
    """The files of a cell that was run; the same bytes for the same Spec."""
    arrays = _rounds(cell)
    validation = OfflineMetrics(setup.collection, setup.ranker, setup.clients, setup.spec.train, part="vali")
    federation = Federation(setup)
    weights = federation.weights_after(cell.spec.train.rounds - 1)
    arrays["query_ndcg"] = federation.evaluation.by_query(cell.trained.parameters, weights)
    arrays["validation_ndcg"] = validation.by_query(cell.trained.parameters, weights)
    evidence = next(iter(cell.attacks.evidence.values()), None)
    if evidence is not None:
        arrays |= arrays_of(evidence)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    packed = buffer.getvalue()  # NumPy stores no time in the archive, so that equal arrays are equal bytes
    trained = cell.trained
    facts = CellFacts(
        schema_=SCHEMA,
        spec_sha256=cell.spec.hash,
        arrays_sha256=hashlib.sha256(packed).hexdigest(),
        eps_claimed=math.inf if cell.record.claim is None else cell.record.claim,
        learner=cell.record.learner,
        pdgd=cell.record.pdgd,
        data=cell.data,
        warnings=list(cell.record.warnings),
        population=cell.record.population,
        groups=list(cell.world.population.groups),
        ndcg=trained.ndcg,
        untrained=trained.untrained,
        ceiling=trained.ceiling,
        validation=validation.ndcg(trained.parameters, weights),
        online_sum=trained.online_sum,
        online_mean=trained.online_mean,
        clipped=trained.clipped,
        too_short=cell.attacks.too_short,
        bytes_per_client=bytes_per_client(
            setup.learner, setup.chain, setup.ranker.n_parameters, cell.spec.trace, trained.rounds
        ),
        findings=list(cell.audits),
        proven_aucs=system_aucs(setup.privacy),
        attacked_auc=None if cell.spec.attack is None else attacked_auc(setup.privacy, cell.spec.attack),
        **({} if evidence is None else {"evidence": _evidence_facts(evidence)}),
        **({"unread": cell.attacks.unread} if cell.attacks.unread else {}),
    )
    # The facts last: a cell counts as finished once they are there, and files are written in this order.
    return {SPEC: cell.spec.toml.encode(), ARRAYS: packed, FACTS: facts.text().encode()}


def read_cell(folder: Path, spec: Spec) -> CellRecord:
    """The finished cell in a folder.

    Raises:
        TraceError: it is damaged, or of another Spec.
    """
    facts = read_facts(folder, spec)
    packed = file_bytes(folder / ARRAYS, TraceError, MOST_UNPACKED)
    if hashlib.sha256(packed).hexdigest() != facts.arrays_sha256:
        raise TraceError(
            f"{folder / ARRAYS}: damaged: not the content that {FACTS} names; delete {folder}, "
            "then compare --resume runs the cell again"
        )
    arrays = read_arrays(packed, str(folder / ARRAYS))
    try:
        return CellRecord(
            spec=spec,
            facts=facts,
            rounds=rounds_in(arrays, spec.train.rounds),
            query_ndcg=arrays["query_ndcg"],
            validation_ndcg=arrays["validation_ndcg"],
            evidence=None if facts.evidence is None else evidence_in(arrays, facts.evidence),
        )
    except (ValueError, KeyError) as error:
        raise TraceError(
            f"{folder}: damaged cell: {error}; delete it, then compare --resume runs it again"
        ) from error


def _rounds(cell: Run) -> Arrays:
    rounds = cell.trained.rounds
    names = dict.fromkeys(name for row in rounds for name in row)
    return {
        f"{ROUNDS}{name}": np.array([row.get(name, np.nan) for row in rounds], dtype=np.float64)
        for name in names
    }


def _evidence_facts(evidence: ClickEvidence) -> EvidenceFacts:
    return EvidenceFacts(
        guessed=list(evidence.guessed),
        surprised=[label for label, one in evidence.guessed.items() if one.surprisal is not None],
        baselines=sorted(evidence.baselines),
        probabilities=sorted(evidence.probabilities),
        exact=sorted(evidence.exact),
        same_message=evidence.same_message,
        groups=list(evidence.groups),
        refused=evidence.refused,
        steps=evidence.steps,
        clipped=evidence.clipped,
    )
