"""The steps and claims of a chain of defenses, from what its defenses declare."""

from __future__ import annotations

from dataclasses import replace

from foltr_audit.core.declared.declared_system import DeclaredClaim, DeclaredStep, Relation
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import claims_of, events_of, law_of
from foltr_audit.privacy.events import GridRounding, NoiseAddition

_ROUNDING = 1e-9  # relative tolerance of comparisons of variances
_RELATIONS: dict[str, Relation] = {"replace-one": "replace-one", "add-remove": "add-remove"}


def chain_steps(
    chain: DefenseChain, context: RoundContext, *, acts_without_pairs: bool = True
) -> tuple[DeclaredStep, ...]:
    """What the defenses of a chain do, with what they declare about it; also of plug-ins of others.

    Args:
        chain: the defenses.
        context: a round; its `shares` say how many clients send.
        acts_without_pairs: whether step defenses also act after an interaction without pairs.
    """
    acts = chain.acts(context, acts_without_pairs=acts_without_pairs)
    return tuple(_step(defense, event, context) for defense, event in acts)


def _step(defense: Defense, event: PrivacyEvent, context: RoundContext) -> DeclaredStep:
    plain = DeclaredStep(name=defense.name, event=event, leaves_out=defense.leaves_out)
    if isinstance(event, GridRounding):
        noisy = any(isinstance(other, NoiseAddition) for other in events_of(defense, context))
        return replace(plain, allowed_for=noisy)
    if not isinstance(event, NoiseAddition):
        return plain
    sensitivity = getattr(defense, "sensitivity", None)
    claim = next(iter(claims_of(defense, context)), None)
    return replace(
        plain,
        sensitivity=sensitivity if isinstance(sensitivity, float | int) else None,
        shares=_shares(defense, context),
        epsilon=None if claim is None else claim.epsilon,
        delta=None if claim is None else claim.delta,
    )


def _shares(defense: Defense, context: RoundContext) -> int:
    """How many parts the whole noise of a defense has; 1 if each client adds all of it."""
    share, whole = law_of(defense, context), law_of(defense, replace(context, shares=1))
    parted = share is not None and whole is not None and share.variance < whole.variance * (1.0 - _ROUNDING)
    return context.shares if parted else 1


def chain_claims(chain: DefenseChain, context: RoundContext) -> tuple[DeclaredClaim, ...]:
    """What the defenses of a chain claim for one round."""
    return tuple(
        DeclaredClaim(
            name=defense.name,
            epsilon=claim.epsilon,
            delta=claim.delta,
            unit=claim.unit,
            relation=_RELATIONS.get(claim.relation),
            view=claim.view,
            covers="round",
        )
        for defense in chain.defenses
        for claim in claims_of(defense, context)
    )
