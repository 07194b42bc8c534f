"""What proofs promise of a system's messages: the AUC that they leave to any attack on a click."""

from __future__ import annotations

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import DELTA, UNIT
from foltr_audit.experiments.comparison.facts import ProvenAucFacts
from foltr_audit.privacy.accounting.proven_promise import ProvenPromise
from foltr_audit.privacy.observer_views import VIEWS, attacked_view
from foltr_audit.simulation.privacy_description import PrivacyDescription


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
