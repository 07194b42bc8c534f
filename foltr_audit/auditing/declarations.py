"""Whether the links of a chain do what they declare, so that proofs may rely on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from foltr_audit.auditing.click_tests import check_clicks
from foltr_audit.auditing.law_tests import failure
from foltr_audit.auditing.link_tests import LinkTestInput, LinkTests
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.auditing.sum_tests import check_sum_noise
from foltr_audit.core.plugins import Defense, PrivacyEvent
from foltr_audit.core.plugins.answers import events_of
from foltr_audit.privacy.events import ClickRandomization, CorrelatedNoise, NoiseAddition, OpaqueChange

State = Literal["as declared", "broken", "not looked", "nothing declared"]

_RANDOM = NoiseAddition | ClickRandomization | CorrelatedNoise

Acts = Sequence[tuple[Defense, PrivacyEvent]]


@dataclass(frozen=True, kw_only=True)
class DeclarationCheck:
    """The result of testing the links of a chain.

    Attributes:
        broken: why a link does not do what it declares, by the link's name.
        not_looked: why a link could not be tested, also by its name.
        links: number of links that declare noise or randomised clicks.
        acts: events with their links; those of broken links count as opaque.
    """

    broken: dict[str, str] = field(default_factory=dict)
    not_looked: dict[str, str] = field(default_factory=dict)
    links: int = 0
    acts: Acts = ()

    @property
    def state(self) -> State:
        """The state of all links together."""
        if self.broken:
            return "broken"
        if self.not_looked:
            return "not looked"
        return "as declared" if self.links else "nothing declared"

    @property
    def why(self) -> str:
        """What is broken, or could not be tested, in one line."""
        found = self.broken or self.not_looked
        return "; ".join(f"{name}: {why}" for name, why in found.items())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The events that proofs may rely on."""
        return tuple(event for _, event in self.acts)

    def with_broken(self, name: str, why: str) -> DeclarationCheck:
        """The same with one more broken link."""
        broken = {name: why, **self.broken}
        return replace(self, broken=broken, acts=_as_opaque(self.acts, broken))


def check_declarations(
    acts: Acts, clients: GameClients, inputs: Sequence[LinkTestInput], interactions: int = 1
) -> DeclarationCheck:
    """Test all links of a chain on some inputs.

    Args:
        acts: events of the chain with the link that each is of.
        clients: clients at any global model.
        inputs: local models for the links of step and message stage.
        interactions: B, behind each message.
    """
    links = LinkTests(acts, interactions)
    links.run(inputs)
    for place, link in enumerate(clients.setup.chain.defenses):
        events = [event for other, event in acts if other is link and isinstance(event, ClickRandomization)]
        if events:
            links.tests.setdefault(id(link), []).extend(
                check_clicks(clients, link, place, events[0].epsilon, interactions)
            )
        for event in (event for other, event in acts if other is link and isinstance(event, CorrelatedNoise)):
            links.tests.setdefault(id(link), []).extend(check_sum_noise(link, event, clients, place))
    names = {id(link): link.name for link in clients.setup.chain.defenses}
    among = sum(len(tests) for tests in links.tests.values())
    failures = {names[link]: failure(tests, among) for link, tests in links.tests.items()}
    broken = {name: why for name, why in failures.items() if why is not None} | _find_changing(clients)
    random = {id(link) for link, event in acts if isinstance(event, _RANDOM)}
    return DeclarationCheck(
        broken=broken,
        not_looked={names[link]: why for link, why in links.not_looked.items()},
        links=len(random),
        acts=_as_opaque(acts, broken),
    )


def _find_changing(clients: GameClients) -> dict[str, str]:
    """Links whose declaration depends on the round: proofs use that of the first round for all."""
    nobody = np.empty(0, np.int64)
    first, later = (clients.context(round_, nobody) for round_ in (0, 1))
    last = clients.context(max(1, clients.setup.spec.train.rounds - 1), nobody)
    return {
        link.name: "what it declares changes from round to round"
        for link in clients.setup.chain.defenses
        if not events_of(link, first) == events_of(link, later) == events_of(link, last)
    }


def _as_opaque(acts: Acts, broken: Mapping[str, str]) -> Acts:
    return tuple(
        (link, OpaqueChange(mechanism=link.name) if link.name in broken else event) for link, event in acts
    )
