"""The decision of a comparison: which defense to use, or that none of them will do, and why."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from foltr_audit.auditing.verdict import CONTRADICTION, FALSE
from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.population import PopulationSpec
from foltr_audit.errors import PluginError
from foltr_audit.experiments.comparison.alternatives import fewest_messages
from foltr_audit.privacy.observer_views import sees_lists
from foltr_audit.report.results.base import describe_few_lists
from foltr_audit.report.results.compare_rows import ComparedSetting, CompareRow
from foltr_audit.report.results.compare_summary import LEAST, StrongestLeak, find_leaks, worlds
from foltr_audit.report.results.wording import join_names, shortened
from foltr_audit.utils.formatting import JsonValue, short

if TYPE_CHECKING:
    from foltr_audit.report.results.compare import CompareReport

MOST_LOSS = 0.05
"""A significant loss of nDCG@10 above this costs too much."""

MOST_AUC = 0.75
"""The 95 % interval of the best attack has to end below this, or less than `ABOVE_GUESS` above the AUC of the
guess that it is compared with: with few lists no attack is shown to succeed, however good it is."""

ABOVE_GUESS = 0.1

Judgement = Literal[
    "recommended",
    "holds",
    "no proof",
    "no bound",
    "costs too much",
    "too few lists",
    "leaks",
    "false claim",
    "not tested",
]
"""From best to worst.

`holds`: nothing speaks against it; `no proof`: no attack succeeds, but its claim is not proven; `no bound`:
nor can it be, since its noise was not computed for what its clip allows (warning `UNBOUNDED`).
"""

UNBOUNDED = "FA101"
"""The warning of noise that is smaller than what two inputs may differ by, or of noise without a clip."""

_RANK: tuple[Judgement, ...] = get_args(Judgement)[1:]
_HELD: tuple[Judgement, ...] = ("holds", "no proof")


@dataclass(frozen=True, kw_only=True)
class JudgedDefense:
    """A defense, judged in all worlds of a comparison.

    Attributes:
        rows: its row in each world.
        judgement: the worst one of all worlds, where the server does not see the shown lists.
        with_lists: the same where it does.
    """

    rows: tuple[CompareRow, ...]
    judgement: Judgement
    with_lists: Judgement

    @property
    def setting(self) -> ComparedSetting:
        return self.rows[0].setting

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def ndcg(self) -> float:
        """Mean nDCG@10 over worlds."""
        return sum(row.ndcg.value for row in self.rows) / len(self.rows)

    @property
    def auc(self) -> float:
        """The largest AUC of its best attack."""
        return max((row.auc.value for row in self.rows if row.auc.known), default=math.nan)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to use.

    Attributes:
        judged: every defense, in the order of the report.
        best: the one to use; None for none of them.
        best_with_lists: the one to use where the server sees the shown lists; None for none, or as `best`.
        server: the server that cheats in all runs; empty for an honest one.
        cohort: clients in a round.
    """

    judged: tuple[JudgedDefense, ...]
    best: JudgedDefense | None
    best_with_lists: JudgedDefense | None
    server: str
    cohort: int

    def judgement(self, row: CompareRow) -> Judgement:
        """The judgement on a row's defense."""
        judged = next(defense for defense in self.judged if defense.setting.key == row.setting.key)
        return "recommended" if judged is self.best else judged.judgement

    @property
    def _with_lists(self) -> str:
        """What to do where the server sees the shown lists."""
        if self.best_with_lists is not None:
            return f"use {self.best_with_lists.name}"
        alone = self.best is not None and self.best.with_lists in _HELD
        return "nothing is proven of it" if alone else "none of these holds"

    @property
    def sentences(self) -> list[str]:
        """What to use, why, what it needs, what it costs, and what was not tested."""
        if self.best is None:
            return [_none_of(self.judged)]
        best = self.best
        more = f" Where it sees them, {self._with_lists}."
        where = "" if best.with_lists == best.judgement else ", if the server does not see the shown lists"
        needs = [*_needs(best, self.cohort)]
        return [
            f"Use {best.name}{where}.{more if where else ''}",
            f"Why: {_why(best)}",
            *([f"Needs: {join_names(needs)}."] if needs else []),
            f"Costs: {_costs(best)}",
            f"Not tested: {'; '.join(_untested(best, self.server))}.",
        ]

    def plain(self) -> dict[str, JsonValue]:
        """As JSON: the defense to use or null, the sentences, and the verdict on each defense."""
        listed = self.best_with_lists
        if listed is None and self.best is not None and self.best.with_lists in _HELD:
            listed = self.best
        verdicts: list[JsonValue] = [
            {
                "learner": defense.setting.learner,
                "defense": defense.name,
                "verdict": self.judgement(defense.rows[0]),
            }
            for defense in self.judged
        ]
        return {
            "use": self.best.name if self.best else None,
            "use_with_lists": listed.name if listed else None,
            "sentences": [*self.sentences],
            "verdicts": verdicts,
        }


def json_with_decision(report: CompareReport) -> str:
    """A comparison as one JSON object, with the decision in its last field."""
    decision = decide(report)
    return report.json({"decision": decision.plain() if decision else None})


class _RowInWorld(NamedTuple):
    """A row, and what depends on its world: what the best attack reveals, and its corrected p-value."""

    row: CompareRow
    leak: StrongestLeak | None
    p: float | None


def decide(report: CompareReport) -> Decision | None:
    """The decision of a comparison; None where it has no results.

    A defense is out if its claim is false, an attack is shown to beat guessing, or it costs significantly
    more than `MOST_LOSS` of nDCG@10, in any world. Of the others one with a proven claim comes first, then
    the one with the smallest claimed epsilon, then the highest nDCG@10, then the lowest AUC.
    """
    if not report.results:
        return None
    rows_of: dict[tuple[str, str], list[_RowInWorld]] = {}
    for world in worlds(report):
        leaks = {leak.row.setting.key: leak for leak in find_leaks(world)}
        for row in world.results:
            key = row.setting.key
            rows_of.setdefault(key, []).append(_RowInWorld(row, leaks.get(key), world.p(row)))
    unbounded = {
        (warning.alternative, warning.eps) for warning in report.warnings if warning.code == UNBOUNDED
    }
    judged = tuple(_judge(rows, unbounded) for rows in rows_of.values())
    best = _best(judged, "judgement")
    listed = _best(judged, "with_lists")
    return Decision(
        judged=judged,
        best=best,
        best_with_lists=None if listed is best else listed,
        server=report.server,
        cohort=_cohort(report),
    )


def _cohort(report: CompareReport) -> int:
    spec = report.config.get("spec")
    table = spec.get("population") if isinstance(spec, dict) else None
    return PopulationSpec.model_validate(table or {}).cohort_size


def _best(judged: Sequence[JudgedDefense], name: str) -> JudgedDefense | None:
    defended = (defense for defense in judged if defense.setting.alternative != NO_DEFENSE)
    held = [defense for defense in defended if getattr(defense, name) in _HELD]

    def order(defense: JudgedDefense) -> tuple[int, float, float, float]:
        return (
            _RANK.index(getattr(defense, name)),
            defense.setting.eps_claimed,
            -round(defense.ndcg, 3),
            defense.auc,
        )

    return min(held, key=order, default=None)


def _judge(rows: Sequence[_RowInWorld], unbounded: Container[tuple[str, float | None]]) -> JudgedDefense:
    setting = rows[0].row.setting
    worst = {
        lists: max((_of_row(*row, lists=lists) for row in rows), key=_RANK.index) for lists in (False, True)
    }
    if (setting.alternative, setting.eps) in unbounded:
        worst = {lists: "no bound" if verdict == "no proof" else verdict for lists, verdict in worst.items()}
    return JudgedDefense(rows=tuple(row.row for row in rows), judgement=worst[False], with_lists=worst[True])


def _of_row(row: CompareRow, leak: StrongestLeak | None, p: float | None, *, lists: bool) -> Judgement:
    verdicts = [verdict for view, verdict in row.verdicts.items() if lists or not sees_lists(view)]
    if {*FALSE, CONTRADICTION} & set(verdicts):
        return "false claim"
    if leak is None or leak.kind == "unknown" or not row.ndcg.known:
        return "not tested"
    if not leak.held:
        return "leaks"
    if row.auc.ci95 is not None and row.auc.ci95[1] > _most_auc(leak):
        return "too few lists"
    if p is not None and p < LEAST and row.ndcg_difference.value < -MOST_LOSS:
        return "costs too much"
    proven = bool(verdicts) and set(verdicts) == {"proven"}
    if lists:  # a view in which nothing is claimed is not among the verdicts
        proven &= all(audit.verdict == "proven" for view, audit in row.audits.items() if sees_lists(view))
    return "holds" if proven or (not row.audits and row.ceiling_auc is not None and not lists) else "no proof"


def _most_auc(leak: StrongestLeak) -> float:
    guess = leak.bound.found.auc.value if leak.bound is not None else 0.5
    return max(MOST_AUC, guess + ABOVE_GUESS)


def _none_of(judged: Sequence[JudgedDefense]) -> str:
    reasons: dict[str, list[str]] = {}
    for defense in judged:
        if defense.setting.alternative != NO_DEFENSE:
            reasons.setdefault(defense.judgement, []).append(defense.name)
    verdicts = {"leaks": "attacks succeed under", "false claim": "the claim is false for"}
    verdicts |= {"costs too much": "ranking gets worse under", "not tested": "nothing is known of"}
    verdicts |= {"no bound": "the noise is not computed for what the clip allows under"}
    verdicts |= {"too few lists": "too few lists were attacked under"}
    parts = [f"{verdicts[kind]} {shortened(names)}" for kind, names in reasons.items() if kind in verdicts]
    return f"Use none of these defenses: {'; '.join(parts)}." if parts else "No defense was compared."


def _why(best: JudgedDefense) -> str:
    worst = max(best.rows, key=lambda row: row.auc.value if row.auc.known else -1.0)
    if not worst.auc.known:
        attack = "attacks have nothing to read"
    else:
        low, high = worst.auc.ci95 or (math.nan, math.nan)
        attack = (
            "the best attack is not shown to beat a guess without a message "
            f"(AUC {short(worst.auc.value)}, {short(low, 2)} to {short(high, 2)})"
        )
    if best.judgement != "holds":
        return f"{attack}. No epsilon is proven."
    eps = worst.setting.eps_claimed
    return f"{attack}, and epsilon {eps:g} is proven{_run(worst)}." if math.isfinite(eps) else f"{attack}."


def _run(row: CompareRow) -> str:
    """What is proven for all rounds of a run; empty where nothing was audited."""
    runs = [audit.run for view, audit in row.audits.items() if not sees_lists(view)]
    if not runs:
        return ""
    run = max(runs, key=lambda bound: bound.eps)
    of = f" for one interaction; for {run.who} over {run.rounds} rounds"
    return f"{of} nothing is" if math.isinf(run.eps) else f"{of} epsilon {run.eps:.3g}"


def _needs(best: JudgedDefense, cohort: int) -> Iterator[str]:
    try:
        chain = DefenseChain(parse_chain([best.setting.defense]))
    except PluginError:  # a plug-in of the system where the comparison ran, which is not installed here
        return
    if chain.encoding is None:
        return
    fewest = fewest_messages(chain, cohort)
    least = "" if fewest is None else f", each sum with at least {fewest:,} of {cohort:,} clients"
    yield f"secure aggregation of the messages of a round{least}"


def _costs(best: JudgedDefense) -> str:
    parts = []
    known = [row for row in best.rows if row.ndcg_difference.known]
    if known:
        worst = min(known, key=lambda row: row.ndcg_difference.value)
        size = worst.ndcg_difference.value
        change = "no nDCG@10" if size >= 0 else f"{short(-size)} of nDCG@10"
        parts.append(f"{change} compared with no defense ({short(worst.ndcg.value)} with it)")
    sent = {row.bytes_per_client for row in best.rows if row.bytes_per_client is not None}
    if sent:
        parts.append(f"{max(sent):,.0f} bytes a client and round")
    return f"{'; '.join(parts) or 'unknown'}."


def _untested(best: JudgedDefense, server: str) -> Iterator[str]:
    if not best.rows[0].audits:
        yield "its claim, since no audit was run"
    few = describe_few_lists([row.lists for row in best.rows if row.lists is not None])
    if few:
        yield f"more lists: this rests on {few}"
    if best.setting.runs == 1:
        yield "how another run would differ"
    yield "servers other than " + server if server else "servers that cheat (--server)"
