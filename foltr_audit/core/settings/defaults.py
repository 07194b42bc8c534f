"""What all commands assume if nothing else is given, so that their answers can be compared.

A bound for another unit, view or delta is another statement: with a default of its own in each command, the
noise that `calibrate` prints would not be what `audit` checks. The help of commands shows these values, so
this module imports nothing: `foltr-audit --help` starts without pydantic and NumPy.
"""

from __future__ import annotations

from typing import Final

UNIT: Final = "interaction"
"""What neighbouring inputs differ in."""

CLIENT: Final = "client"
"""What they differ in where a bound is of a whole run: an interaction is part of one round only."""

VIEW: Final = "individual"
"""Whose observations: a server that receives what each client sends.

It sees more than a server that receives sums, so a bound for this view holds for that one too. A gate also
counts the shown lists (`evidence/check/limits.py`).
"""

DELTA: Final = 1e-5
"""Delta of what has no pure bound, and of a chain that makes no claim.

A claim of pure differential privacy has delta 0 instead.
"""

TRIALS: Final = 2000
"""Evaluated trials of an audit under each hypothesis."""

PROTOCOLS: Final = ("attack", "audit", "membership", "unlearning")
"""The tables of a Spec for what may follow training."""


NO_DEFENSE: Final = "none"
"""The defense that does nothing: what every comparison starts from."""

SENSITIVITY: Final = 3.0
"""Sensitivity Delta of a learner whose authors published none."""

CLIP: Final = "clip"
"""The defense that bounds messages before calibrated noise."""

SECURE_AGGREGATION: Final = "secure-aggregation"
"""The defense that hides single messages, where a command adds one."""

PROVEN_MECHANISMS: Final = ("laplace", "click-rr")
"""The mechanisms that a comparison which names no defense proves for single messages."""

PROVEN_IN_SUM: Final = "skellam"
"""The mechanism that it proves for secure sums."""

LEARNER: Final = "fpdgd"
"""The learner of an experiment that names none."""

CLICK_MODELS: Final = ("perfect", "navigational", "informational")
"""The click models of attacked users; training uses the first."""

SERVER_CLICKS: Final = "perfect"
"""The click model by which a server learns from queries that it has labelled itself."""

SERVER: Final = "honest"
"""The server that follows the protocol."""

SCENARIO: Final = "uniform"
"""The scenario in which clients are alike."""

NO_POISONING: Final = "none"
"""What is written for a population without malicious clients."""

MODEL_ATTACKS: Final = ("olsr", "lad")
"""Attacks on models and updates that name none, each with one of the next two."""

ONE_LIST_ATTACK: Final = "map"
"""The attack on messages of one interaction."""

SEVERAL_LISTS_ATTACK: Final = "joint-map"
"""The attack on messages of several interactions."""

STAND_IN: Final = "learned"
"""The attack on messages of fresh clients that neither of these two reads."""

LISTS_ATTACK: Final = "shown-lists"
"""The attack on the lists that follow clicks."""

SUM_ATTACK: Final = "aggregate"
"""The attack on sums of messages."""

SEEDED: Final = "seeded es"
"""The kind `es` where the seed of a message drives its client, for the choice of attacks."""

OTHER_ATTACKS: Final = {
    "es": ("es-first-click",),
    SEEDED: ("es-first-click", "es-seed"),
    "clicks": ("seen-clicks",),
}
"""Attacks on messages that are not models, by their kind."""
