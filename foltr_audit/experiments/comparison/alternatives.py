"""The defenses that are compared, each a chain for every claimed epsilon.

An alternative is written as parts joined by `+`. A part is `published` (the chain that the learner's authors
publish for an epsilon), `proven-MECHANISM` (the least noise of a mechanism for which accounting proves the
epsilon for one interaction), or a plug-in, in whose text `{eps}`, `{sensitivity}` and `{clip}` (half of the
sensitivity) stand for numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from foltr_audit.auditing.noise_for_target import calibrate, calibrations
from foltr_audit.core.defense_chain import DefenseChain, parse_chain, published_chain
from foltr_audit.core.plugins import Defense, plain
from foltr_audit.core.plugins.registry import called, names, own_class
from foltr_audit.core.settings.defaults import (
    NO_DEFENSE,
    PROVEN_IN_SUM,
    PROVEN_MECHANISMS,
    SECURE_AGGREGATION,
)
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.privacy.accounting import AccountingContext, upper_bound
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.privacy.observer_views import VIEWS, WITHOUT_LISTS, without_lists
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.formatting import name_in

PUBLISHED, PROVEN = "published", "proven-"
DEFAULT_ALTERNATIVES = (
    NO_DEFENSE,
    PUBLISHED,
    f"{PUBLISHED}+{SECURE_AGGREGATION}",
    *(f"{PROVEN}{name}" for name in PROVEN_MECHANISMS),
    f"{PROVEN}{PROVEN_IN_SUM}+{SECURE_AGGREGATION}",
)
"""The defenses of a comparison that names none."""

_ROUNDING = 1e-6  # relative slack: calibration and accounting compute the bound in different orders
_PLACES = ("{eps}", "{sensitivity}", "{clip}")


@dataclass(frozen=True)
class DefenseAlternative:
    """One defense of a comparison; its `text` has parts that `+` joins."""

    text: str

    def __post_init__(self) -> None:
        for part in self._parts:
            if part.startswith(PROVEN) and part.removeprefix(PROVEN) not in calibrations():
                known = ", ".join(PROVEN + name for name in calibrations())
                raise UsageError(f"--defense: unknown {part!r}; expected one of {known}")
            if self._is_keyword(part):
                continue
            name = called(Defense, part)
            if ":" not in name and name not in names(Defense) and own_class(Defense, name) is None:
                known = ", ".join((PUBLISHED, f"{PROVEN}MECHANISM", *names(Defense)))
                raise UsageError(f"--defense: unknown {part!r}; known: {known}")
            parse_chain([fill_places(part, 1.0, 2.0)])  # refuses invalid parameters

    @property
    def _parts(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in parts(self.text))

    @staticmethod
    def _is_keyword(part: str) -> bool:
        return part == PUBLISHED or part.startswith(PROVEN)

    @property
    def name(self) -> str:
        """The text without spaces around its parts."""
        return "+".join(self._parts)

    @property
    def uses_epsilon(self) -> bool:
        """Whether its chain depends on the epsilon."""
        return any(self._is_keyword(part) or any(place in part for place in _PLACES) for part in self._parts)

    @property
    def promised(self) -> str | None:
        """The mechanism whose proof it promises; None without one, or with several."""
        found = [part.removeprefix(PROVEN) for part in self._parts if part.startswith(PROVEN)]
        return found[0] if len(found) == 1 else None

    def proven(self, eps: float | None, delta: float) -> dict[str, float] | None:
        """The `claim` and `delta` that accounting proves for its chain; None where it promises no proof."""
        if self.promised is None or eps is None:
            return None
        return {"claim": eps, "delta": delta if calibrations()[self.promised].needs_delta else 0.0}

    def promised_views(self, setup: Setup) -> tuple[str, ...] | None:
        """The views that its promise holds in; None for all of them."""
        rule = None if self.promised is None else calibrations()[self.promised]
        hides = rule is None or rule.order == 0 or not setup.clients.lists_follow_clicks
        views = tuple(VIEWS) if hides else WITHOUT_LISTS
        if rule is not None and rule.released:
            return tuple(view for view in views if without_lists(view) == "aggregate")
        return None if hides else views

    def chain(self, setup: Setup, eps: float, sensitivity: float, delta: float) -> tuple[str, ...]:
        """Texts of the chain for a claimed epsilon; `delta` is of parts whose noise has no pure bound.

        The sensitivity is twice the norm that models are clipped to.

        Raises:
            UsageError: a part does not fit the learner of the setup, no noise meets its claim, or another
                part undoes what a mechanism promises, e.g. rounding after noise.
        """
        found: list[str] = []
        for part in self._parts:
            if part == PUBLISHED:
                norm = sensitivity if setup.learner.sends == "models" else None
                try:
                    found += DefenseChain(published_chain(eps, norm, setup.learner)).texts
                except UsageError as error:
                    raise UsageError(f"{PUBLISHED}: {error}") from error
            elif part.startswith(PROVEN):
                found += self._proven_chain(part.removeprefix(PROVEN), setup, eps, sensitivity, delta)
            else:
                found.append(fill_places(part, eps, sensitivity))
        if self.promised is not None:
            defended = _defended(setup, found)
            upper = upper_bound(defended.privacy.events(), _situation(self.promised, defended, delta))
            if not upper.epsilon <= eps * (1 + _ROUNDING):
                raise UsageError(
                    f"{self.name}: nothing proves epsilon {eps:g} of the whole chain: {upper.how}"
                )
        return tuple(found)

    def _proven_chain(
        self, mechanism: str, setup: Setup, eps: float, sensitivity: float, delta: float
    ) -> tuple[str, ...]:
        if setup.learner.sends != "models":
            raise UsageError(
                f"{PROVEN}{mechanism}: learner {setup.learner.name} sends {setup.learner.sends}; "
                "expected one that sends models"
            )
        # The other parts without places to fill say how many messages a sum may hold.
        others = [part for part in self._parts if not self._is_keyword(part) and name_in(part) != NO_DEFENSE]
        wired = _defended(setup, [part for part in others if not any(place in part for place in _PLACES)])
        found = calibrate(mechanism, eps, _situation(mechanism, wired, delta), norm=sensitivity / 2)
        if found.why_not is not None:
            raise UsageError(f"{PROVEN}{mechanism}: no noise proves epsilon {eps:g}: {found.why_not}")
        return found.defense


def _defended(setup: Setup, chain: Sequence[str]) -> Setup:
    """The training of a setup with another chain."""
    return replace(setup, spec=Spec.parse({**setup.spec.only_trained.table(), "defense": [*chain]}, ""))


def _situation(mechanism: str, setup: Setup, delta: float) -> AccountingContext:
    """What a mechanism is proven for: one interaction, seen in single messages or, of noise shares, in sums.

    Lists that follow from clicks are outside of the proof, unless the clicks themselves are randomized.
    """
    rule = calibrations()[mechanism]
    view = "aggregate" if rule.in_sum else "individual"
    privacy, delta = setup.privacy, delta if rule.needs_delta else 0.0
    return privacy.situation(view, "interaction", interactions=1, rounds=None, delta=delta)


def fill_places(part: str, eps: float, sensitivity: float) -> str:
    """A template with its places filled."""
    for place, value in zip(_PLACES, (eps, sensitivity, sensitivity / 2), strict=True):
        part = part.replace(place, plain(float(value)))
    return part
