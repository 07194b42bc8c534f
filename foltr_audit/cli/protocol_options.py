"""The options of the protocols that follow training: attack and audit."""

from __future__ import annotations

from dataclasses import dataclass

from foltr_audit.cli.given import methods_of, query_ids
from foltr_audit.cli.options import OptionRecord, option, split_names

SAME = "same"
"""The value of --train-click-model that trains under each attacked click model."""


@dataclass(frozen=True, kw_only=True)
class FreshOptions(OptionRecord):
    """The options of an attack that a comparison has too."""

    target: str | None = option(
        "Messages to attack: fresh, of one new client per query, or training, of the rounds. Default: fresh.",
        "attack.target",
    )
    attack_on: str | None = option(
        "Parts whose queries are attacked. Default: vali,test.", "attack.on", read=split_names
    )
    repeats: int | None = option(
        "Draws of clicks and noise for each attacked query. Default: 1.", "attack.repeats"
    )
    attack_interactions: int | None = option(
        "Interactions in each attacked message. Default: 1.", "attack.interactions"
    )


@dataclass(frozen=True, kw_only=True)
class ClaimOptions(OptionRecord):
    """The options of an audit that a check has too."""

    claim: float | None = option("Epsilon to check. Default: the one that the chain claims.", "audit.claim")
    delta: float | None = option(
        "Delta of the claim. Default: the one that the chain claims, or 1e-5 without a claim.", "audit.delta"
    )
    trials: int | None = option("Evaluated trials per hypothesis of an audit. Default: 2000.", "audit.trials")


@dataclass(frozen=True, kw_only=True)
class AttackOptions(FreshOptions):
    """The options of an attack."""

    method: list[str] | None = option(
        "Attack, e.g. olsr, or all. May be repeated. Default: olsr, lad and map, or those that fit.",
        "attack.methods",
        read=methods_of,
    )
    click_model: list[str] | None = option(
        "How the attacked users click. May be repeated. Default: perfect, navigational and informational.",
        "attack.click_models",
    )
    train_click_model: str | None = option(
        "How users click in training, or same to train under each attacked click model. Default: perfect.",
        "train.click_model",
        read=lambda name: None if name == SAME else name,
    )
    min_documents: int | None = option(
        "Leave out queries with fewer documents. Default: 10.", "attack.min_documents"
    )
    lists: str | None = option(
        "How the lists of fresh clients are made: deterministic or sampled. Default: deterministic.",
        "attack.lists",
    )
    view: str | None = option(
        "What the server sees. individual: each message; aggregate: sums over --repeats clients with "
        "the same query; pooled: sums over the messages of one client in --repeats rounds. Default: "
        "individual.",
        "attack.view",
    )
    hide: list[str] | None = option(
        "Knowledge that is withheld from the server, e.g. order,noise. May be repeated. See list knowledge.",
        "attack.hide",
        read=split_names,
    )
    queries: str | None = option(
        "Report the attacked lists of these queries one by one: ID,... or a file of ids.",
        "attack.queries",
        read=query_ids,
    )
    choices: int | None = option(
        "Number of queries that query-id chooses from, and of messages that linkage chooses from. "
        "Default: 10.",
        "attack.choices",
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ClaimOptions):
    """The options of an audit."""

    view: list[str] | None = option(
        "What the server sees. individual: each message; aggregate: their sum; colluding: also what "
        "other clients sent. With +lists it sees the shown lists too. May be repeated. Default: "
        "individual and aggregate, with and without lists.",
        "audit.views",
        read=split_names,
    )
    unit: list[str] | None = option(
        "What neighbouring inputs differ in: click, interaction, query or client. May be repeated. "
        "Default: interaction.",
        "audit.units",
        read=split_names,
    )
    canary: list[str] | None = option(
        "data:worst (found by search), data:typical (no evidence for a claim), data:no-click, data:lists "
        "(the later lists differ most) or message (two extreme models; unit client). May be repeated. "
        "Default: data:worst.",
        "audit.canaries",
        read=split_names,
    )
    model: list[str] | None = option(
        "Global models that messages start from: first (of the run) or trained. Each model has its own "
        "game; with several --messages, trained means the models of rounds along the run. Default: both.",
        "audit.models",
        read=split_names,
    )
    confidence: float | None = option("Confidence of each lower bound. Default: 0.95.", "audit.confidence")
    estimator: str | None = option(
        "clopper-pearson, gaussian-dp, one-run, bayesian or betting. Default: gaussian-dp for a delta "
        "above 0 and noise that is normal or nearly so, else clopper-pearson.",
        "audit.estimator",
    )
    score: str | None = option(
        "What distinguishes the two inputs: likelihood, projection, discriminant, equality, lists, "
        "last-bits, an attack such as lad, or auto, the best on separate trials. Default: auto.",
        "audit.score",
    )
    messages: int | None = option(
        "Number of rounds in which the client sends. The audit pools all its messages. Default: 1.",
        "audit.messages",
    )
    drop_out: float | None = option(
        "Share of the cohort whose messages do not arrive. Default: 0.", "audit.drop_out"
    )
    colluders: int | None = option(
        "With --view colluding: number of other clients that collude with the server. Default: all.",
        "audit.colluders",
    )
    canary_interactions: int | None = option(
        "Interactions in each message. Default: those of the learner.", "audit.interactions"
    )
    lists: str | None = option(
        "How the lists after the first of a message are made: deterministic or sampled. Default: "
        "deterministic.",
        "audit.lists",
    )
    canary_on: str | None = option(
        "Parts in which canaries are searched. Default: train,vali,test.", "audit.on", read=split_names
    )
    min_documents: int | None = option(
        "Leave out queries with fewer documents. Default: 10.", "audit.min_documents"
    )
