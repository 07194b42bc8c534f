"""How much noise a claim needs: the least of each mechanism, in a system that options describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foltr_audit.auditing.noise_for_target import NoiseCalibration, calibrate, calibrations
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.defaults import CLIENT, DELTA, SECURE_AGGREGATION, UNIT, VIEW
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.accounting import AccountingContext
from foltr_audit.privacy.accounting.sum_members import SumMembers
from foltr_audit.privacy.observer_views import without_lists
from foltr_audit.utils.formatting import join_names


@dataclass(frozen=True, kw_only=True)
class CalibratedNoise:
    """What each mechanism needs for a target, the epsilon of all rounds of a situation."""

    target: float
    situation: AccountingContext
    members: SumMembers
    clients: int
    mechanisms: Sequence[NoiseCalibration]

    @property
    def warnings(self) -> list[CodedWarning]:
        """What a reader of the answers should know."""
        summed = [each for each in self.mechanisms if each.sum_only and not each.why_not]
        if all(each.wired for each in summed):
            return []
        named = join_names([each.mechanism for each in summed])
        return [
            coded(
                "sum only",
                f"{named}: the bound holds for the sum only; a single message carries "
                f"1/{self.members.cohort} of the noise, and whoever sees messages reads them; "
                "add +secure-aggregation to the chain",
            )
        ]


def calibrated_noise(
    target_eps: float,
    *,
    delta: float = DELTA,
    unit: str | None = None,
    view: str = VIEW,
    colluders: int | None = None,
    rounds: int = 1,
    clients: int = 1000,
    cohort: int | None = None,
    separation: int = 1,
    secret_sample: bool = False,
    arriving: int | None = None,
    interactions: int = 1,
    rank_with: str = "local",
    parameters: int | None = None,
    data: str | Collection | None = None,
    norm: float = 1.5,
    order: int | None = None,
    mechanisms: Sequence[str] | None = None,
) -> CalibratedNoise:
    """The least noise with which each mechanism provably meets a target.

    Mechanisms that share one noise among all clients get secure aggregation, since a single message carries
    almost none of it.

    Args:
        target_eps: epsilon that has to be proven, of all rounds together.
        delta: of that epsilon; 0 for a pure one.
        unit: what neighbouring inputs differ in: click, interaction, query or client. None for interaction,
            and for client with several rounds.
        view: what the server sees: individual, aggregate or colluding, each also with +lists.
        colluders: of view colluding: number of other clients that collude; None for all.
        rounds: number of rounds that the target covers.
        clients: number of clients.
        cohort: number of clients sampled for each round; None for all.
        separation: rounds from one in which a client takes part to its next one, at least.
        secret_sample: whether whoever looks does not know which clients take part in a round.
        arriving: number of messages that arrive; None for all.
        interactions: interactions of a client in a round.
        rank_with: model that ranks a client's lists: local or global.
        parameters: number of coordinates of a message; None for that of the data.
        data: data whose number of features is used, for the linear ranker; None for synthetic:mq2007.
        norm: radius that models are clipped to.
        order: norm of the clip, 1 or 2; None for the one that each noise needs.
        mechanisms: names of the mechanisms; None for all.

    Raises:
        UsageError: a value out of range, or an unknown mechanism.

    Example:
        >>> import foltr_audit as fa
        >>> fa.calibrate(1.2, parameters=46, mechanisms=["laplace"]).results[0]["defense"]
        ('clip:norm=1.5,ord=1', 'laplace:eps=1.2,sensitivity=3')
    """
    if parameters is not None and data is not None:
        raise UsageError("--parameters and --data: give one or the other")
    if rank_with not in ("local", "global"):
        raise UsageError(f"--rank-with: {rank_with!r}; expected local or global")
    if colluders is not None and not view.startswith("colluding"):
        raise UsageError("--colluders: expected --view colluding, or colluding+lists")
    if clients < 1:
        raise UsageError(f"--clients: {clients}; expected at least 1")
    size = clients if cohort is None else cohort
    if not 1 <= size <= clients:
        raise UsageError(f"--cohort: {cohort} of {clients} clients; expected 1 to {clients}")
    if not 1 <= separation <= clients // size:
        raise UsageError(
            f"--separation: {separation} with cohorts of {size} out of {clients} clients; "
            f"expected 1 to {clients // size}"
        )
    if parameters is None and isinstance(data, Collection):
        parameters = data.n_features
    elif parameters is None:
        spec = Spec.parse({} if data is None else {"data": {"source": data}}, "calibrate")
        parameters = Runner().setup(spec).collection.n_features
    members = SumMembers(cohort=size, fewest=arriving, colluders=colluders)
    situation = AccountingContext(
        view=view,
        unit=unit or (UNIT if rounds == 1 else CLIENT),
        parameters=parameters,
        members=members,
        interactions=interactions,
        ranked_with="global" if rank_with == "global" else "local",
        rounds=rounds,
        separation=separation,
        delta=delta,
        sampled=size / (clients // separation),
        cohorts="secret" if secret_sample else "known",
    )
    summed: tuple[str, ...] = ()
    if without_lists(view) == VIEW:  # a view of sums assumes some secure sum already
        summed = (SECURE_AGGREGATION if arriving is None else f"{SECURE_AGGREGATION}:threshold={arriving}",)
    rules = calibrations()
    found = [
        calibrate(
            name,
            target_eps,
            situation,
            norm=norm,
            order=order,
            wire=summed if name in rules and rules[name].in_sum else (),
        )
        for name in dict.fromkeys(mechanisms or rules)
    ]
    return CalibratedNoise(
        target=target_eps, situation=situation, members=members, clients=clients, mechanisms=found
    )
