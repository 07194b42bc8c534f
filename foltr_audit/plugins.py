"""The API that plug-ins are written against, under a name that stays.

Write a subclass, and register it as an entry point:

=============== ======================================== ============================
group           subclass of                              guide
=============== ======================================== ============================
attacks         `Attack`, `IntentAttack`, `LinkAttack`,  docs/write-an-attack.md
                `ParticipantAttack`
defenses        `Defense`                                docs/write-a-defense.md
scenarios       `Scenario`                               docs/simulate.md
click_models    `ClickModel`                             CONTRIBUTING.md
learners        `ModelLearner`, `MetricLearner`,         CONTRIBUTING.md
                `CentralLearner`
client_steps    `ClientStep`                             docs/federation.md
poisonings      `Poisoning`                              docs/simulate.md
servers         `Server`                                 docs/threat-model.md
=============== ======================================== ============================

Example:
    >>> from foltr_audit.plugins import Attack, Inference, View

`foltr_audit.testing` checks a plug-in before or after it is registered.

What a defense declares is here too: its `Stage`, its events and the law of Laplace noise (`GammaShare`). The
rarer events are in `foltr_audit.privacy.events`, other laws in `foltr_audit.privacy.noise`.

`foltr_audit.core.plugins` defines every name here and says what a plug-in is. The engine imports the names
from there, because a room imports nothing that lies above it.
"""

# The list of public names stands in `core.plugins` alone: `*` takes exactly its `__all__`.
from foltr_audit.core.plugins import *  # noqa: F403
