"""The plug-in API.

A plug-in is a small frozen pydantic object that validates its parameters. Its text form is `name` or
`name:parameter=value,parameter=value`; a chain of defenses joins such texts with `+`. Entry points register
plug-ins: see `foltr_audit.core.plugins.registry`.
"""

from foltr_audit.core.plugins.attack import Attack, IntentAttack, LinkAttack, ParticipantAttack
from foltr_audit.core.plugins.base import Plugin, plain
from foltr_audit.core.plugins.client_step import ClientStep
from foltr_audit.core.plugins.defense import Calibration, Defense, Stage
from foltr_audit.core.plugins.learner import (
    CentralLearner,
    CentralResult,
    Learner,
    MetricLearner,
    ModelLearner,
    Users,
)
from foltr_audit.core.plugins.scenario import ClickModel, Poisoning, Scenario
from foltr_audit.core.plugins.server import Server
from foltr_audit.core.rankers import FirstLayer
from foltr_audit.core.records.population import (
    Environment,
    IntentPeriod,
    Population,
    ScenarioContext,
    Trait,
    TraitValue,
)
from foltr_audit.core.records.round_context import Broadcast, Delivery, RoundContext, WireMessages
from foltr_audit.core.records.view import (
    Inference,
    Knowledge,
    ParticipantEstimates,
    Participation,
    RoundMembers,
    View,
)
from foltr_audit.privacy.events import (
    Ball,
    ClickRandomization,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
    PrivacyClaim,
    PrivacyEvent,
)
from foltr_audit.privacy.noise import GammaShare

__all__ = [
    "Attack",
    "Ball",
    "Broadcast",
    "Calibration",
    "CentralLearner",
    "CentralResult",
    "ClickModel",
    "ClickRandomization",
    "ClientStep",
    "Defense",
    "Delivery",
    "Environment",
    "FirstLayer",
    "GammaShare",
    "Inference",
    "IntentAttack",
    "IntentPeriod",
    "Knowledge",
    "Learner",
    "LinkAttack",
    "MetricLearner",
    "ModelLearner",
    "NoiseAddition",
    "NormBound",
    "NormScaling",
    "OpaqueChange",
    "ParticipantAttack",
    "ParticipantEstimates",
    "Participation",
    "Plugin",
    "Poisoning",
    "Population",
    "PrivacyClaim",
    "PrivacyEvent",
    "RoundContext",
    "RoundMembers",
    "Scenario",
    "ScenarioContext",
    "Server",
    "Stage",
    "Trait",
    "TraitValue",
    "Users",
    "View",
    "WireMessages",
    "plain",
]
