"""The report of `stress`: how each attempt on a protocol came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from foltr_audit.auditing.protocol_stress.all_attempts import StressAttempts
from foltr_audit.auditing.protocol_stress.attempt_row import ProtocolAttempt
from foltr_audit.auditing.protocol_stress.flower_attempts import FlowerAttempts
from foltr_audit.auditing.protocol_stress.staged_round import StagedRound
from foltr_audit.report.results.plain_report import PlainReport


@dataclass(frozen=True, kw_only=True)
class ProtocolStressReport(PlainReport):
    """The report of `stress`.

    Attributes:
        defense: the protocol with its parameters.
        clients, parameters, seed: of the round.
        neighbours: of each client.
        shares_needed: shares that reconstruct a secret.
        tries_per_second: seeds tried in one second, measured: the only number that the seed does not fix.
        kept: whether everything held that the protocol promises.
        attempts: in order.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/stress/1"

    defense: str
    clients: int
    parameters: int
    seed: int
    neighbours: int
    shares_needed: int
    tries_per_second: float
    kept: bool
    attempts: tuple[ProtocolAttempt, ...]

    @classmethod
    def of(cls, defense: str, seed: int, stage: StagedRound, tried: StressAttempts) -> ProtocolStressReport:
        """The report on a round."""
        return cls(
            defense=defense,
            clients=stage.clients,
            parameters=stage.values.shape[1],
            seed=seed,
            neighbours=stage.graph.degree,
            shares_needed=stage.needed,
            tries_per_second=tried.tries_per_second,
            kept=all(row.outcome == "held" for row in tried.attempts if row.promised),
            attempts=tried.attempts,
        )

    @classmethod
    def of_flower(
        cls, found: FlowerAttempts, clients: int, parameters: int, seed: int
    ) -> ProtocolStressReport:
        """The report on a round of Flower, in which each client is a neighbour of each other one."""
        return cls(
            defense=f"SecAgg+ of Flower {found.version}",
            clients=clients,
            parameters=parameters,
            seed=seed,
            neighbours=clients - 1,
            shares_needed=found.threshold,
            tries_per_second=found.tried.tries_per_second,
            kept=all(row.outcome == "held" for row in found.tried.attempts if row.promised),
            attempts=found.tried.attempts,
        )
