"""The tables of a Spec and of a comparison as type checkers see them: what may be given for each field.

With these types mypy and pyright refuse `fa.Spec(trian=...)` and `train={"rounds": "five"}`. What a field
means, and which values are valid, stands in the class of the same table: for `TrainFields` in `TrainSpec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from foltr_audit.core.plugins import Attack, ClickModel, Learner, Poisoning, Server
from foltr_audit.core.plugins.registry import Chain
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.audit import AuditSpec, AuditView, Canary, Unit
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.membership import MembershipMethod, MembershipSpec, MembershipView
from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.core.settings.train import TraceSpec, TrainSpec
from foltr_audit.core.settings.unlearning import UnlearningMethod, UnlearningSpec


class DataFields(TypedDict, total=False):
    """What `DataSpec` holds."""

    source: str
    fold: int
    normalise: Literal["zscore", "zscore-parts", "query-minmax", "none"]
    missing: float | str | None
    dtype: Literal["float32", "float64"]
    document_order: Literal["content", "file"]
    intents: str | None
    balance: bool | None


class PopulationFields(TypedDict, total=False):
    """What `PopulationSpec` holds."""

    scenario: str
    clients: int
    cohort: int | None
    separation: int | None
    cohorts: Literal["sampled", "fixed"] | None
    poisoning: str | Poisoning | type[Poisoning] | None


class TrainFields(TypedDict, total=False):
    """What `TrainSpec` holds."""

    learner: str | Learner | type[Learner]
    ranker: str
    rounds: int
    click_model: str | ClickModel | type[ClickModel]
    init: str | None
    no_relevant: Literal["zero", "skip"]
    no_relevant_online: Literal["zero", "skip"] | None
    server: str | Server | type[Server] | None
    evaluate_every: int


class TraceFields(TypedDict, total=False):
    """What `TraceSpec` holds."""

    message: Literal["model", "update"]
    dtype: Literal["float32", "float64"]
    embed_features: bool
    every: int


class AttackFields(TypedDict, total=False):
    """What `AttackSpec` holds."""

    methods: Sequence[str | Attack | type[Attack]] | None
    click_models: Sequence[str | ClickModel | type[ClickModel]]
    target: Literal["fresh", "training"]
    on: Sequence[str]
    repeats: int
    min_documents: int
    interactions: int
    view: Literal["individual", "aggregate", "client", "pooled", "cohort"]
    lists: Literal["deterministic", "sampled"] | None
    choices: int
    colluders: int | None
    hide: Sequence[str]
    queries: Sequence[str]


class AuditFields(TypedDict, total=False):
    """What `AuditSpec` holds."""

    views: Sequence[AuditView]
    units: Sequence[Unit]
    canaries: Sequence[Canary]
    models: Sequence[Literal["first", "trained"]]
    claim: float | None
    claim_on: Sequence[AuditView] | None
    delta: float | None
    trials: int
    stop_early: bool | None
    confidence: float
    estimator: str
    score: str
    messages: int
    drop_out: float
    colluders: int | None
    interactions: int | None
    lists: Literal["deterministic", "sampled"] | None
    on: Sequence[str]
    min_documents: int


class MembershipFields(TypedDict, total=False):
    """What `MembershipSpec` holds."""

    methods: Sequence[MembershipMethod]
    views: Sequence[MembershipView]
    of: Literal["client", "log"]
    rounds_seen: int | None
    shadows: int
    references: int
    others: int
    gamma: float
    offline_scale: float


class UnlearningFields(TypedDict, total=False):
    """What `UnlearningSpec` holds."""

    clients: Sequence[int]
    methods: Sequence[UnlearningMethod] | None
    calibrate_every: int
    calibration_interactions: int | None
    fine_tune_rounds: int
    ascent_rounds: int
    ball: float
    trials: int
    delta: float
    confidence: float


class SpecFields(TypedDict, total=False):
    """What `fa.Spec` takes: the type of a table that several Specs share, `fa.Spec(**table)`."""

    schema: Literal["foltr-audit/spec/1"]
    seed: int
    repetition: int
    defense: Chain
    data: Collection | DataSpec | DataFields
    population: PopulationSpec | PopulationFields
    train: TrainSpec | TrainFields
    trace: TraceSpec | TraceFields
    attack: AttackSpec | AttackFields | None
    audit: AuditSpec | AuditFields | None
    membership: MembershipSpec | MembershipFields | None
    unlearning: UnlearningSpec | UnlearningFields | None


class GridFields(TypedDict, total=False):
    """What `fa.compare` takes: the fields of `ComparisonGrid`."""

    schema: Literal["foltr-audit/grid/1"]
    runs: int
    eps: Sequence[float]
    sensitivity: float | None
    sensitivity_grid: Sequence[float]
    delta: float
    defenses: Sequence[Chain]
    attacks: Sequence[str | Attack | type[Attack]]
    click_models: Sequence[str | ClickModel | type[ClickModel]]
    learners: Sequence[str | Learner | type[Learner]]
    scenarios: Sequence[str]
    folds: Sequence[int]
    audit: bool
    every_observer: bool
    spec: SpecFields
