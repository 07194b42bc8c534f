"""The subjects of a recorded Run or trace: what its messages leak, what is proven, and its recorded nDCG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from foltr_audit.auditing.verdict import refuse_contradiction
from foltr_audit.core.ranking_metrics import OFFLINE_NDCG
from foltr_audit.core.results import UNKNOWN, AttackRecord, AuditRecord, Estimate, ProofRecord
from foltr_audit.core.settings.attack import changed_protocol, refuse_unknown_queries
from foltr_audit.core.settings.audit import AuditSpec, AuditView
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import SystemLimits
from foltr_audit.evidence.check.outcomes import Checked, CheckSubject, Reason
from foltr_audit.evidence.check.subjects import refusals
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.run import proofs_of
from foltr_audit.experiments.runs.folder import MODEL, RunFolder, load_model
from foltr_audit.experiments.stages import first_model
from foltr_audit.experiments.table import proof_of
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.scoring import click_records
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import Trace
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.progress import SILENT, Progress

_MISSING: dict[Reason, str] = {
    "attacks": "the trace holds no truth to score attacks with",
    "proof": "the trace holds no Spec, whose defenses proofs are of; expected a Run, or no --trace",
    "audits": "a trace holds no audit; run one, without --trace",
    "loss": "a trace holds no training without a defense; run one, without --trace",
}
_TRIALS = 20  # of a Run's audit: it tests links before its games, which a ceiling does not need


def check_trace(
    limits: SystemLimits,
    path: Path,
    methods: Sequence[str] = (),
    progress: Progress = SILENT,
    *,
    every: bool = False,
    data: str | None = None,
    seed: int | None = None,
    intents: str | None = None,
) -> Checked:
    """Check a recorded Run or trace; a subject for each click model; `every` as for `check_fresh`.

    Raises:
        UsageError: the folder or the data do not exist, or no attack can run.
        TraceError: it is damaged, or its truth does not belong to its messages.
    """
    recorded = TraceAttack.open(path, data=data, seed=seed, intents=intents)
    limits = limits.seen_by_server(recorded.protocol.hide)
    protocol = recorded.protocol.strengthened(recorded.header.attacked_kind)
    if methods:
        protocol = changed_protocol(protocol, {"methods": tuple(methods)})
    recorded = replace(recorded, protocol=protocol)
    attacks: dict[str, list[AttackRecord]] = {}
    refused: dict[str, Mapping[str, str]] = {}
    missing = dict(_MISSING)
    if recorded.has_truth:
        missing["attacks"] = "no attack on clicks was run"
        if limits.max_attack_auc is not None:
            attacks, refused = _attacks(recorded, progress)
    ndcg, proof, warnings = UNKNOWN, None, tuple[CodedWarning, ...]()
    if limits.min_ndcg:
        ndcg, missing["ndcg"] = _ndcg(recorded, with_interval=limits.use == "interval")
    if limits.max_ceiling_auc is not None and recorded.spec is not None and recorded.collection is not None:
        setup = Setup(recorded.spec, recorded.collection)
        warnings = setup.privacy.warnings()
        proof, why = _proof(setup, limits.view, progress)
        missing |= {"links": why} if why else {}
    doubtful = {name: each.text for name, each in recorded.truth.items() if each.doubtful} if attacks else {}
    chain = recorded.header.knowledge.get("defense", [])
    defense = ("+".join(chain) if isinstance(chain, list) else str(chain)) or "unknown defense"
    subjects = [
        CheckSubject(
            name=f"{defense}, {click_model} clicks",
            chain=defense,
            attacks=() if click_model in doubtful else attacks.get(click_model, ()),
            refused=refusals(refused.get(click_model, {})),
            all_attacks=not every,
            proof=proof,
            ndcg=ndcg,
            missing=missing | {"attacks": doubtful[click_model]} if click_model in doubtful else missing,
            warnings=warnings,
        )
        for click_model in recorded.traces
    ]
    config: dict[str, JsonValue] = {"trace": str(recorded.path), "methods": list(recorded.methods)}
    if recorded.spec is not None:
        config["spec"] = recorded.spec.public.table()
    warnings = tuple(recorded.truth_warnings()) if attacks else ()
    return Checked(limits, subjects, config, warnings)


def _attacks(
    recorded: TraceAttack, progress: Progress
) -> tuple[dict[str, list[AttackRecord]], dict[str, Mapping[str, str]]]:
    """What attacks on clicks read, and which could not run, by click model."""
    refuse_unknown_queries(recorded.protocol.queries, recorded.collection)
    attacks: dict[str, list[AttackRecord]] = {}
    refused: dict[str, Mapping[str, str]] = {}
    streams = Streams(recorded.used_seed)
    for judged in recorded.judged(progress):
        clicks = judged.found.clicks
        records = () if clicks is None else click_records(clicks, streams)
        attacks[judged.click_model] = [record for record in records if record.role == "attack"]
        reasons = judged.found.refused.items()
        refused[judged.click_model] = {name: recorded.advised(why) for name, why in reasons}
    return attacks, refused


def _proof(setup: Setup, view: AuditView, progress: Progress) -> tuple[ProofRecord | None, str]:
    """What is proven of a Run whose links do what they declare, and why these could not be tested.

    Raises:
        ContradictionError: a proof and what was found of the same claim cannot both be right.
    """
    why, audits = "", tuple[AuditRecord, ...]()
    try:
        from foltr_audit.auditing.audit import Audit  # slow to import, and most checks run none

        protocol = AuditSpec(views=(view,), models=("first",), trials=_TRIALS)
        audits = tuple(Audit(setup, protocol, progress).findings({"first": (first_model(setup),)}))
    except UsageError as error:
        why = str(error)
    refuse_contradiction(
        {**vars(each), "defense": "+".join(setup.chain.texts), "sees": view} for each in audits
    )
    return proof_of(proofs_of(setup.privacy), audits, view), why


def _ndcg(recorded: TraceAttack, *, with_interval: bool) -> tuple[Estimate, str]:
    """The nDCG@10 after the last round, with its interval over queries if the Run has its model."""
    spec = recorded.spec
    trace = next(iter(recorded.traces.values()))
    if spec is not None:
        trace = Trace.open(RunFolder(recorded.path).training)
    rounds = trace.metrics() if trace.has_truth else []
    if not rounds or OFFLINE_NDCG not in rounds[-1]:
        return UNKNOWN, "the trace holds no metrics of its training"
    if spec is not None and len(rounds) < spec.train.rounds:
        planned = spec.train.rounds
        return UNKNOWN, f"{len(rounds)} of {planned} rounds are recorded; finish the run with --resume"
    value = float(rounds[-1][OFFLINE_NDCG])
    if not with_interval:
        return Estimate(value), ""
    if spec is None or not (recorded.path / MODEL).is_file():
        return Estimate(value), "only a finished Run has the model that it is computed with"
    if recorded.collection is None:
        raise UsageError(f"min_ndcg: {recorded.path}: no data to rank; give them with --data")
    federation = Federation(Setup(spec, recorded.collection))
    model = load_model(recorded.path, federation.setup.ranker.n_parameters)
    values = federation.evaluation.by_query(model, federation.weights_after(spec.train.rounds - 1))
    queries = np.array([f"{number:07d}" for number in range(values.size)], dtype=np.str_)
    return QueryBootstrap(queries, Streams(spec.seed)).share(values), ""
