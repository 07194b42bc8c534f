"""Selects the attacks of a check: those on clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.judge.protocol import not_for_clicks
from foltr_audit.report.results.wording import join_names


def click_attacks(methods: Sequence[str], *, every: bool) -> tuple[str, ...]:
    """The attacks among some that infer clicks; with `every` the others are skipped, else refused.

    Raises:
        UsageError: an unknown attack, or a refused one.
    """
    found = []
    for text in methods:
        problem = not_for_clicks([make(Attack, text)])
        if not problem:
            found.append(text)
        elif not every:
            name, why = next(iter(problem.items()))
            raise UsageError(f"--method {name}: {why}; expected attacks that max_attack_auc can be judged by")
    return tuple(found)


def untried_warnings(protocol: AttackSpec, kind: str) -> list[CodedWarning]:
    """A warning if attacks were named and a default one for the kind of messages is not among them."""
    ran = {name_in(text) for text in protocol.methods_on(kind)}
    usual = [make(Attack, text) for text in protocol.defaults_on(kind)]
    missing = [attack.label for attack in usual if attack.name not in ran]
    if not missing:
        return []
    return [
        coded(
            "untried attacks",
            f"max_attack_auc is not judged by {join_names(missing, 'or')}, which were not tried; "
            "leave out --method to judge by them too",
        )
    ]


def refusals(reasons: Mapping[str, str]) -> dict[str, str]:
    """Why attacks could not run, by their names; baselines are left out."""
    return {name: why for name, why in reasons.items() if not make(Attack, name).baseline}
