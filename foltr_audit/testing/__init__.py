"""Contract suites: checks of plug-ins and noise laws, for those who write one. Nothing else imports them.

`check_attack`, `check_defense`, `check_learner`, `check_scenario`, `check_click_model` and `check_noise_law`
run all checks of one object and raise one `ContractError`; `attack_checks` and so on list the checks.
Plug-ins are objects, classes whose parameters all have defaults, or the texts of registered ones.

    >>> from foltr_audit.testing import check_defense
    >>> check_defense("clip:norm=2")

May import: `auditing`, `judge`, `simulation` and the rooms below them.
Begin with: `contract.py`, then `attack_checks.py`.
"""

from foltr_audit.testing.attack_checks import attack_checks, check_attack
from foltr_audit.testing.contract import ContractCheck, ContractError
from foltr_audit.testing.defense_checks import (
    check_defense,
    check_noise_law,
    defense_checks,
    noise_law_checks,
)
from foltr_audit.testing.training_checks import (
    check_click_model,
    check_learner,
    check_scenario,
    click_model_checks,
    learner_checks,
    scenario_checks,
)

__all__ = [
    "ContractCheck",
    "ContractError",
    "attack_checks",
    "check_attack",
    "check_click_model",
    "check_defense",
    "check_learner",
    "check_noise_law",
    "check_scenario",
    "click_model_checks",
    "defense_checks",
    "learner_checks",
    "noise_law_checks",
    "scenario_checks",
]
