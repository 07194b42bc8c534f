"""The decision of a comparison in words: what to use, why, what it costs and needs, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Server
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.settings.defaults import SERVER
from foltr_audit.errors import PluginError
from foltr_audit.experiments.decide import (
    ABOVE_GUESS,
    MOST_AUC,
    MOST_LOSS,
    Decision,
    JudgedDefense,
    Judgement,
)
from foltr_audit.experiments.table import ComparedPool, worst_audit
from foltr_audit.judge.doubts import describe_few_lists
from foltr_audit.privacy.observer_views import VIEWS, sees_lists
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.settings import protected, short_scenario
from foltr_audit.report.table import Mark, estimate_text, short_method, shortened
from foltr_audit.utils.formatting import short

VERDICTS: dict[Judgement, str] = {
    "holds": "nothing speaks against it",
    "no proof": "no attack succeeds, but no epsilon is proven",
    "no bound": "its noise is not computed for what its clip allows",
    "cost not known": "the one-sided 95 % bounds of the loss of nDCG@10 lie on both sides of "
    f"{short(MOST_LOSS, 2)}",
    "costs too much": f"shown to lose more than {short(MOST_LOSS, 2)} of nDCG@10 (one-sided 95 % bound)",
    "too few lists": f"the AUC may be above {short(MOST_AUC, 2)}, and what the attack adds to the guess "
    f"above {short(ABOVE_GUESS, 1)} (one-sided 95 % bounds)",
    "leaks": "the best attack is shown to add to the guess (one-sided 95 % bound above 0)",
    "false claim": "a claim is refuted where the server does not see the shown lists, or its proof cannot "
    "hold",
    "not tested": "no attack or no ranking was measured",
}
"""What a verdict means, with its thresholds."""

MARKS: dict[Judgement, Mark] = {
    "recommended": "good",
    "holds": "good",
    "no proof": "warn",
    "no bound": "warn",
    "cost not known": "warn",
    "costs too much": "warn",
    "too few lists": "warn",
    "leaks": "bad",
    "false claim": "bad",
    "not tested": "dim",
}
_WHY_NONE: dict[Judgement, str] = {
    "leaks": "Attacks succeed under",
    "false claim": "The claim is false for",
    "costs too much": f"More than {short(MOST_LOSS, 2)} of nDCG@10 is lost under",
    "cost not known": f"It is not known whether more than {short(MOST_LOSS, 2)} of nDCG@10 is lost under",
    "not tested": "Nothing is known of",
    "no bound": "The noise is not computed for what the clip allows under",
    "too few lists": "Too few lists were attacked under",
}


_VERDICT = Section("learner defense verdict")
DECISION = Section("use:str|null use_with_lists:str|null sentences:[str]", nested("verdicts", _VERDICT))
"""The defense to use, also where the server sees the shown lists, and the verdict on each defense."""


def decision_row(decision: Decision) -> Row:
    """The columns of `DECISION`."""
    listed = decision.to_use_with_lists
    return DECISION.row(
        {
            "use": decision.best.name if decision.best else None,
            "use_with_lists": listed.name if listed else None,
            "sentences": decision_sentences(decision),
            "verdicts": [
                _VERDICT.of(one, defense=one.name, verdict=decision.verdict(one)) for one in decision.judged
            ],
        }
    )


def decision_sentences(decision: Decision) -> list[str]:
    """What to use, why, what it costs and needs, what was not tested, and which costs are not known."""
    best = decision.best
    if best is None:
        return [_none_of(decision.judged), *_unknown_costs(decision)]
    where = more = ""
    if best.with_lists != best.judgement:
        where = ", if the server does not see the shown lists"
        more = f" Where it sees them, {_with_lists(decision)}{_read_from_lists(best)}."
    return [
        f"Use {best.name}{where}.{more}",
        f"Why: {_why(best)}",
        f"Costs: {_costs(best)}",
        *_needs(best),
        f"Not tested: {'; '.join(_untested(best))}.",
        *_unknown_costs(decision),
    ]


MOST_SENTENCES = 3
"""Of the decision, before the table; the rest stands below it."""


def _with_lists(decision: Decision) -> str:
    if decision.best_with_lists is not None:
        return f"use {decision.best_with_lists.name}"
    alone = decision.to_use_with_lists is not None
    return "nothing is proven of this defense" if alone else "none of these defenses holds"


def _read_from_lists(best: JudgedDefense) -> str:
    """The attack by which a server that also sees the lists reads most; empty where none is shown to."""
    if best.with_lists != "leaks":
        return ""
    seen = {other: pool for pool in best.pools for other in pool.others if sees_lists(other.view)}
    several = {other: other.best for other in seen}
    attacks = {other: best for other, best in several.items() if best.above_guess.known}
    worst = max(attacks, key=lambda other: attacks[other].above_guess.value)
    attack, where = attacks[worst], _under(seen[worst], best.pools)
    method = short_method(attack.attack.method) if attack.attack else "an attack"
    aucs = f"AUC {short(attack.auc.value)}, the guess {short(attack.guess_auc)}"
    return f": {method} reads clicks ({aucs}; {where})"


def _none_of(judged: Sequence[JudgedDefense]) -> str:
    reasons: dict[Judgement, list[str]] = {}
    for one in judged:
        if one.defended:
            reasons.setdefault(one.judgement, []).append(one.name)
    why = [f"{_WHY_NONE[kind]} {shortened(names)}." for kind, names in reasons.items() if kind in _WHY_NONE]
    return " ".join(["Use none of these defenses.", *why]) if why else "No defense was compared."


def _under(pool: ComparedPool, pools: Sequence[ComparedPool]) -> str:
    """Whose clicks a number of a pool is about, and the scenario where pools differ in it."""
    _, scenario, click_model = pool.world
    scenarios = list(dict.fromkeys(other.world[1] for other in pools))
    where = f", scenario {short_scenario(scenario, scenarios)}" if len(scenarios) > 1 else ""
    return f"{click_model} clicks{where}"


def _why(best: JudgedDefense) -> str:
    attacks = {pool: pool.best for pool in best.pools}
    above = {pool: each.above_guess for pool, each in attacks.items()}
    worst = max(above, key=lambda pool: above[pool].value if above[pool].known else -1.0)
    attack = "attacks have nothing to read"
    if above[worst].known:
        shown = attacks[worst]
        auc = (
            f"AUC {short(shown.auc.value)}, {short(shown.guess_auc)} by {short_method(str(shown.guess))}, "
            f"difference {estimate_text(above[worst])}; {_under(worst, best.pools)}"
        )
        attack = f"the best attack is not shown to beat a guess without message and grades ({auc})"
    proven = best.eps_proven()
    if math.isinf(proven):
        return f"{attack}." if best.judgement == "holds" else f"{attack}. No epsilon is proven."
    return f"{attack}, and epsilon {proven:.3g} is proven{_run(worst)}."


def _run(pool: ComparedPool) -> str:
    """What is proven for all rounds of a run; empty where nothing was audited."""
    audits = [worst_audit(pool, view) for view in VIEWS if not sees_lists(view)]
    bounds = [audit.whole_run for audit in audits if audit is not None]
    if not bounds:
        return ""
    bound = max(bounds, key=lambda bound: bound.upper.epsilon)
    of = f" for one interaction; for {protected(bound.unit)} over {bound.rounds} rounds"
    eps = bound.upper.epsilon
    return f"{of} nothing is" if math.isinf(eps) else f"{of} epsilon {eps:.3g}"


def _costs(best: JudgedDefense) -> str:
    parts = []
    known = [pool for pool in best.pools if pool.difference.size.known]
    if known:
        worst = min(known, key=lambda pool: pool.difference.size.value)
        size = worst.difference.size.value
        change = "nothing in nDCG@10" if size >= 0 else f"{short(-size)} of nDCG@10"
        most = "at most " if len(known) > 1 and size < 0 else ""
        upper = max(0.0, *(pool.difference.upper_loss for pool in known))
        parts.append(
            f"{most}{change} compared with no defense, for {_under(worst, best.pools)} "
            f"({short(worst.ndcg.value)} with it; at 95 % confidence at most {short(upper)} lost)"
        )
    sent = [value for pool in best.pools if (value := pool.mean("bytes_per_client")) is not None]
    if sent:
        parts.append(f"{max(sent):,.0f} bytes a client and round")
    return f"{'; '.join(parts) or 'unknown'}."


def _unknown_costs(decision: Decision) -> Iterator[str]:
    """The defenses whose cost is not known, each with how many queries would show it."""
    several = [one for one in decision.judged if one.judgement == "cost not known"]
    counts = [(one.name, one.queries_to_settle) for one in several]
    names = [name if count is None else f"{name} (about {count:,})" for name, count in counts]
    losses = [pool.difference.loss for one in several for pool in one.pools]
    here = max((loss.n for loss in losses if loss is not None), default=0)
    why = ": no run without a defense was compared."
    if here:
        why = f". In brackets: how many test queries would settle it ({here:,} here); more --runs need fewer."
    if names:
        yield f"Cost not known: {shortened(names)}{why}"


def _needs(best: JudgedDefense) -> list[str]:
    spec = best.pools[0].spec
    try:
        chain = DefenseChain(parse_chain(spec.defense))
    except PluginError:  # a plug-in of the system where the comparison ran, which is not installed here
        return []
    if chain.encoding is None:
        return []
    cohort = spec.population.cohort_size
    fewest = chain.arriving(cohort, cohort, alike=True)
    least = f", each sum with at least {fewest:,} of {cohort:,} clients"
    return [f"Needs: secure aggregation of the messages of a round{least}."]


def _untested(best: JudgedDefense) -> Iterator[str]:
    first = best.pools[0]
    if not first.audits:
        yield "its claim, since no audit was run"
    attacks = [pool.best.attack for pool in best.pools]
    few = describe_few_lists([attack.counts["lists"] for attack in attacks if attack is not None])
    if few:
        yield f"more lists ({few} here)"
    if first.runs == 1:
        yield "how another run would differ"
    server = cheating_server(first.spec.train.server)
    yield f"servers other than {server}" if server else "servers that cheat (--server)"


def cheating_server(named: object) -> str:
    """A server that cheats; empty for an honest one."""
    server = make_if_known(Server, named) if isinstance(named, str) else None
    return "" if server is None or server.name == SERVER else server.label
