"""What comes of limits on a subject: each holds, is broken, or cannot be judged; functions over records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from foltr_audit.auditing.verdict import FALSE, refuse_contradiction
from foltr_audit.core.results import UNKNOWN, AttackRecord, AuditRecord, Estimate, Interval, ProofRecord
from foltr_audit.core.warning_kinds import CodedWarning, coded, warning_code
from foltr_audit.evidence.check.limits import PRIVACY_LIMITS, PROOF_LIMITS, SystemLimits
from foltr_audit.experiments.decide import cost_doubt
from foltr_audit.experiments.table import NOT_TESTED, Difference
from foltr_audit.judge.bootstrap import QueryMetric
from foltr_audit.judge.doubts import describe_few_lists
from foltr_audit.judge.significance import FEWEST
from foltr_audit.privacy.observer_views import sees, sees_lists, with_article, without_lists
from foltr_audit.utils.formatting import JsonValue, join_names

Reason = Literal["attacks", "proof", "links", "audits", "ndcg", "loss"]


@dataclass(frozen=True, kw_only=True)
class CheckSubject:
    """One defense in one world, and what is known of it.

    Attributes:
        attacks: those that ran and read messages.
        refused: why attacks could not run, by their names.
        all_attacks: whether the AUC cannot be judged if an attack could not run.
        proof: of the view of the limits, see `experiments.table.proof_of`; None where none was computed.
        audits: what the audit of its chain found.
        ndcg, difference: offline nDCG@10, and its difference to no defense.
        missing: why something is not known; `links` where no audit tested what the proof rests on.
        warnings: what is wrong with the declarations of its chain.
    """

    name: str
    chain: str = ""
    attacks: Sequence[AttackRecord] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    all_attacks: bool = True
    proof: ProofRecord | None = None
    audits: Sequence[AuditRecord] = ()
    ndcg: Estimate = UNKNOWN
    difference: Difference = NOT_TESTED
    missing: Mapping[Reason, str] = field(default_factory=dict)
    warnings: Sequence[CodedWarning] = ()


class Checked(NamedTuple):
    """What was held against limits, what was run or read as a plain table, and warnings about it."""

    limits: SystemLimits
    subjects: Sequence[CheckSubject]
    config: Mapping[str, JsonValue]
    warnings: Sequence[CodedWarning] = ()

    def every_warning(self) -> list[CodedWarning]:
        """Each warning once, also about attacks that were refused, and about what the limits leave out."""
        more = [] if set(self.limits.given) & set(PRIVACY_LIMITS) else [_NO_PRIVACY]
        more += [
            coded("refused attack", f"{subject.name}: {name} could not run and is not judged: {why}")
            for subject in self.subjects
            if self.limits.max_attack_auc is not None and not subject.all_attacks
            for name, why in subject.refused.items()
        ]
        return list(dict.fromkeys((*self.warnings, *more)))


_NO_PRIVACY = coded("no privacy limit", "no limit is about privacy: any leak would pass")

Status = Literal["holds", "broken", "not judged"]


class LimitOutcome(NamedTuple):
    """The outcome of one limit on one subject.

    Attributes:
        value: the value of the subject: a number or the verdict on a claim; None if it is unknown.
        judged: the number that is compared with the limit; None if it cannot be judged.
        about: what the value describes, e.g. the attack.
        missing: why the limit cannot be judged.
        allowed: the number in the limit; None for a limit without one.
        attacks, attack: the attacks that ran, and the one that is judged, for the limit on attacks.
    """

    value: float | str | None = None
    judged: float | None = None
    interval: Interval | None = None
    about: str = ""
    missing: str = ""
    limit: str = ""
    subject: str = ""
    status: Status = "not judged"
    allowed: float | None = None
    attacks: tuple[str, ...] = ()
    attack: AttackRecord | None = None


def outcomes(limits: SystemLimits, subjects: Sequence[CheckSubject]) -> list[LimitOutcome]:
    """Check every given limit on every subject, subject by subject.

    Raises:
        ContradictionError: the proof and the trials of a claim contradict each other.
    """
    for subject in subjects:
        refuse_contradiction(
            {**vars(audit), "defense": subject.chain, "sees": _sees(audit)} for audit in subject.audits
        )
    return [_outcome(name, limits, subject) for subject in subjects for name in limits.given]


def _outcome(name: str, limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    allowed = None if name == "no_refuted_claims" else float(getattr(limits, name))
    found, edge = _judged(name, limits, subject), allowed or 0.0
    status: Status = "not judged"
    if found.judged is not None:
        fits = found.judged >= edge if name == "min_ndcg" else found.judged <= edge
        status = "holds" if fits else "broken"
    doubts = _doubts(limits.view, subject) if name in PROOF_LIMITS and status != "broken" else []
    if doubts:
        missing = "; ".join([*doubts, found.missing] if found.missing else doubts)
        found, status = found._replace(judged=None, missing=missing), "not judged"
    ran = tuple(str(attack.method) for attack in subject.attacks)
    return found._replace(
        about=printable(found.about),
        missing=printable(found.missing),
        limit=name,
        subject=printable(subject.name),
        status=status,
        allowed=allowed,
        attacks=ran if name == "max_attack_auc" else (),
    )


def _doubts(view: str, subject: CheckSubject) -> list[str]:
    """The warnings by which what is proven in a view does not count."""
    voids = {
        warning_code("noise shares"): without_lists(view) != "aggregate",
        warning_code("lists"): sees_lists(view),
        warning_code("weights"): True,
    }
    return list(dict.fromkeys(str(warning) for warning in subject.warnings if voids.get(warning.code)))


def printable(text: str) -> str:
    """A text in which `?` replaces the characters that terminals and XML cannot print."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _read(limits: SystemLimits, name: str, found: Estimate, about: str, missing: str | None) -> LimitOutcome:
    """An estimate for a limit; with `use = "interval"` the worse of its one-sided bounds is compared too."""
    value, interval = found.value, found.bounds
    if not found.known:
        return LimitOutcome(about=about, missing=missing or f"no value is known: {about}")
    if limits.use == "value":
        return LimitOutcome(value, value, found.ci95, about)
    if interval is None:
        why = missing or f"fewer than {FEWEST} queries have a value"
        return LimitOutcome(
            value, None, None, about, f'no interval: {why}; use = "value" judges the value alone'
        )
    judged = min(value, interval[0]) if name == "min_ndcg" else max(value, interval[1])
    limit = float(getattr(limits, name) or 0.0)
    if isinstance(found, QueryMetric) and min(value, judged) <= limit < max(value, judged):
        about += _would_settle(found.needed(limit), found.values.size)
    return LimitOutcome(value, judged, interval, about)


def _would_settle(needed: int | None, queries: int) -> str:
    if needed is None:
        return ""
    return f"; about {needed:,} queries would settle it, instead of {queries:,}"


def _attack_auc(limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    refused = "; ".join(f"{name}: {why}" for name, why in subject.refused.items())
    if not subject.attacks:
        why = subject.missing.get("attacks", "no attack was run")
        return LimitOutcome(missing=f"no attack on clicks could run: {refused}" if refused else why)
    ran = [str(attack.method) for attack in subject.attacks]
    highest = "the highest AUC" if limits.use == "value" else "the highest upper bound"
    others = f"with {highest} of {join_names(ran)}" if len(ran) > 1 else "the only one that ran"
    found = [_one_attack(limits, attack, others) for attack in subject.attacks]
    # Intervals that end alike, e.g. at 1, are told apart by their values; what is not judged comes last.
    worst = max(found, key=lambda one: (_or_last(one.judged), _or_last(one.value)))
    if worst.judged is not None and worst.judged > (limits.max_attack_auc or 0.0):
        return worst  # broken, whatever the refused attacks would find
    if refused and subject.all_attacks:
        return LimitOutcome(missing=f"could not run: {refused}; name the attacks to judge by with --method")
    unknown = next((one for one in found if one.judged is None), None)
    return unknown or worst


def _or_last(value: float | str | None) -> float:
    return value if isinstance(value, float) else -1.0


def _one_attack(limits: SystemLimits, attack: AttackRecord, others: str) -> LimitOutcome:
    auc = attack.metric("auc")
    missing = None if auc.known else "no attacked list has both clicked and unclicked documents"
    few = describe_few_lists([attack.counts["lists"]])
    about = ", ".join(part for part in (f"attack {attack.method}", others, few) if part)
    return _read(limits, "max_attack_auc", auc, about, missing)._replace(attack=attack)


def _ceiling_auc(limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    """The AUC that a proof leaves to attacks: 1 where nothing is proven, which no limit allows."""
    proof = subject.proof
    if proof is None:
        return LimitOutcome(missing=subject.missing.get("proof", "no such proof was computed"))
    auc = 1.0 if proof.auc is None else proof.auc
    nothing = "" if auc < 1 else "nothing is proven: "
    about = f"{sees(proof.view)}, one interaction: {nothing}{proof.upper.how}"
    if auc < 1 and "links" in subject.missing:
        missing = f"no audit tested the links that the proof rests on: {subject.missing['links']}"
        return LimitOutcome(auc, None, about=about, missing=missing)
    return LimitOutcome(auc, auc, about=about)


def _loss(limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    """The loss; unless the value alone counts, its one-sided bounds: the rule of `decide.cost_doubt`."""
    about, loss = "offline nDCG@10 compared with no defense", subject.difference.loss
    if loss is None or math.isnan(loss.mean):
        missing = subject.missing.get("loss", f"no value is known: {about}")
        return LimitOutcome(about=about, missing=missing)
    if limits.use == "value":
        return LimitOutcome(loss.mean, loss.mean, loss.interval, about)
    if loss.interval is None:
        missing = f'no interval: {loss.n} queries have a value; use = "value" judges the value alone'
        return LimitOutcome(loss.mean, None, None, about, missing)
    limit = limits.max_ndcg_loss or 0.0
    if cost_doubt(subject.difference, limit) == "cost not known":
        about += _would_settle(subject.difference.queries_needed(limit), loss.n)
    return LimitOutcome(loss.mean, loss.upper, (loss.lower, loss.upper), about)


def _sees(audit: AuditRecord) -> str:
    return sees(audit.view, audit.colluders)


def _about(audit: AuditRecord) -> str:
    delta = f", delta {audit.delta:g}" if audit.delta else ""
    return f"{_sees(audit)}, one {audit.unit}, {audit.canary}{delta}"


def _epsilon(limits: SystemLimits, subject: CheckSubject, name: str) -> LimitOutcome:
    """An epsilon by the audits of the view of the limits."""
    if not subject.audits:
        return LimitOutcome(missing=subject.missing.get("audits", "no audit was run"))
    audits = [audit for audit in subject.audits if audit.view == limits.view]
    if not audits:
        seen = "; ".join(dict.fromkeys(map(_sees, subject.audits)))
        return LimitOutcome(
            missing=f"no audit where the server sees {with_article(sees(limits.view))}; audited: {seen}"
        )
    allowed = float(getattr(limits, name))
    if name == "max_proven_eps":
        audit = max(audits, key=lambda one: one.upper.epsilon)
        value = audit.upper.epsilon
        return LimitOutcome(value, value, about=f"{_about(audit)}: {audit.upper.how}")
    if name == "max_exact_eps":
        worst, unknown = max(audits, key=_exact), min(audits, key=_exact)
        if _exact(unknown) < 0.0 and _exact(worst) <= allowed:
            missing = "the exact loss of the pair that was played is not computable for this chain"
            return LimitOutcome(about=_about(unknown), missing=f"{missing} ({_about(unknown)})")
        return LimitOutcome(worst.exact, worst.exact, about=_about(worst))
    audit = max(audits, key=lambda one: one.lower.epsilon)
    value, trials = audit.lower.epsilon, audit.lower.trials
    interval = value, audit.upper.epsilon  # from the measured bound to the proven one
    found = LimitOutcome(value, value, interval, f"{_about(audit)}, {trials} trials")
    ceiling = min(one.lower.ceiling for one in audits)
    if value <= allowed and ceiling <= allowed:  # these trials could not break the limit: a vacuous check
        missing = f"{trials} trials can show at most {ceiling:.3g}, whatever leaks; expected more --trials"
        return found._replace(judged=None, missing=missing)
    return found


def _exact(audit: AuditRecord) -> float:
    """The exact loss; an unknown one sorts below all others."""
    return -1.0 if audit.exact is None else audit.exact


def _claims(limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    if not subject.audits:
        return LimitOutcome(missing=subject.missing.get("audits", "no audit was run"))
    claiming = [audit for audit in subject.audits if audit.claim is not None]
    if not claiming:
        return LimitOutcome(missing="there is no claim to refute; state one with --claim")
    false = [audit for audit in claiming if audit.verdict in FALSE]
    judged = false or [audit for audit in claiming if audit.view == limits.view]
    if not judged:
        claimed = "; ".join(dict.fromkeys(map(_sees, claiming)))
        where = f"where the server sees {with_article(sees(limits.view))}"
        return LimitOutcome(missing=f"nothing is claimed {where}; claimed: {claimed}")
    audit = max(judged, key=lambda one: (one.verdict != "proven", one.upper.epsilon))
    value = f"proven, epsilon {audit.upper.epsilon:.3g}" if audit.verdict == "proven" else audit.verdict
    about = f"claim {audit.claim:g}, {_about(audit)}: {audit.why}"
    return LimitOutcome(value, float(bool(false)), None, about)


def _judged(name: str, limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    if name == "min_ndcg":
        return _read(limits, name, subject.ndcg, "offline nDCG@10", subject.missing.get("ndcg"))
    judges = {
        "max_attack_auc": _attack_auc,
        "max_ceiling_auc": _ceiling_auc,
        "no_refuted_claims": _claims,
        "max_ndcg_loss": _loss,
    }
    return judges[name](limits, subject) if name in judges else _epsilon(limits, subject, name)
