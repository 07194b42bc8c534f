"""One sentence on what the results of an attack mean; every number is taken from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foltr_audit.core.spec.attack import STRONGEST
from foltr_audit.judge.bootstrap import TAIL, binomial_interval
from foltr_audit.report.results.base import Row
from foltr_audit.report.results.few_lists import few_lists
from foltr_audit.report.results.wording import join_names, whole_percent
from foltr_audit.utils.formatting import epsilon


def describe_results(results: Sequence[Row]) -> str:
    """What the strongest attack on the smallest claimed epsilon shows.

    The strongest of several rows is the luckiest too. So its AUC counts as better than guessing only
    if its interval, widened for the number of rows that it was chosen from, lies above one half.
    """
    rows = [row for row in results if not row["baseline"] and not math.isnan(row["auc"])]
    if not rows:
        return "No list with a click was attacked, so nothing can be said."
    smallest = min(row["eps_claimed"] for row in rows)
    rows = [row for row in rows if row["eps_claimed"] == smallest]
    sure = [row for row in rows if sure_auc(row, len(rows)) > 0.5]
    row = max(sure or rows, key=lambda row: (float(row["auc"]), _recall_and_precision(row)))
    claimed = f"At a claimed epsilon of {epsilon(smallest)}"
    claim = "Without a claimed epsilon" if math.isinf(smallest) else claimed
    backwards = reads_backwards(rows)
    if backwards is not None and not sure:
        return f"{claim}, {backwards}."
    if not sure_auc(row, len(rows)) > 0.5:
        return f"{claim}, {_not_shown(row, rows)}"
    guess = next(other for other in results if other["method"] == "random:k=3" and same_setting(other, row))
    return (
        f"{claim}, a server that sees {_plural(row['sees'])} finds {whole_percent(row['recall'])} of the "
        f"{row['click_model']} users' clicks with {row['method']}, and "
        f"{whole_percent(row['precision'])} of what it names was clicked (three random guesses: "
        f"{whole_percent(guess['recall'])} and {whole_percent(guess['precision'])})."
        f"{few_lists([row['lists']])}"
    )


def reads_backwards(rows: Sequence[Row]) -> str | None:
    """A warning about the worst attack if it is significantly worse than guessing; else None."""
    worse = [row for row in rows if sure_auc(_mirrored(row), len(rows)) > 0.5]
    if not worse:
        return None
    row = min(worse, key=lambda row: float(row["auc"]))
    return (
        f"{row['method']} reads the {row['click_model']} clicks with the wrong sign: AUC {row['auc']:.2f} "
        f"({_interval(row)}), which is {1 - row['auc']:.2f} with the other sign; check the declared facts"
    )


def _mirrored(row: Row) -> Row:
    """The row of an attack that orders all documents in reverse."""
    ci95 = row["auc_ci95"]
    other = None if ci95 is None else [1 - ci95[1], 1 - ci95[0]]
    return {**row, "auc": 1 - row["auc"], "auc_ci95": other}


def _not_shown(row: Row, rows: Sequence[Row]) -> str:
    """No attack is shown to be better than guessing, with the names of those that ran."""
    ran = list(dict.fromkeys(str(one["method"]) for one in rows))
    numbers = f"an AUC of {row['auc']:.2f} ({_interval(row)}) on {row['lists']} lists"
    if len(ran) == 1:
        found = (
            f"{ran[0]}, the only attack that ran, is not shown to be better than guessing: on "
            f"{row['click_model']} clicks it has {numbers}."
        )
    else:
        found = (
            f"none of {join_names(ran)} is shown to be better than guessing; the best, {row['method']} on "
            f"{row['click_model']} clicks, has {numbers}."
        )
    if not {name.partition(":")[0] for name in ran} & STRONGEST:
        found += " Stronger attacks were not tried: leave out --method to run them."
    return found + few_lists([row["lists"]])


def _plural(sees: str) -> str:
    """What a server sees of many clients: `messages and lists`."""
    return sees.replace("message", "messages").replace("sum", "sums")


def sure_auc(row: Row, choices: int) -> float:
    """Lower end of the AUC's interval at 95 % for all of `choices` rows together (Bonferroni).

    On the logit scale, where the interval of an AUC is close to symmetric (Pepe 2003, "The statistical
    evaluation of medical tests", section 5.2), with the standard error of the bootstrap and the t
    distribution over the queries. Where the interval is that of one trial per query, as close to 1, the
    lower end is that of these trials (`bootstrap.share_interval`). Below any AUC where there is no interval.
    """
    from scipy.special import stdtrit

    if row["auc_ci95"] is None:
        return -1.0
    low, high = row["auc_ci95"]
    queries, edge = row["queries"], 0.5 / (row["queries"] + 1)
    trials = row["auc"] * queries, queries
    if low <= binomial_interval(*trials)[0]:
        return binomial_interval(*trials, TAIL / choices)[0]
    auc = min(max(row["auc"], edge), 1 - edge)
    error = (high - low) / (2 * 1.959964) or math.sqrt(auc * (1 - auc) / queries)
    step = float(stdtrit(queries - 1, 1 - TAIL / choices)) * error / (auc * (1 - auc))
    return 1 / (1 + math.exp(min(step - math.log(auc / (1 - auc)), 700.0)))


def same_setting(one: Row, other: Row) -> bool:
    """Whether two rows are of the same clicks, training, epsilon, defense and learner."""
    names = ("click_model", "trained_on", "eps_claimed", "defense", "learner", "pdgd")
    return all(one.get(name) == other.get(name) for name in (*names, *(n for n in one if "." in n)))


def _recall_and_precision(row: Row) -> float:
    """Recall and precision together, which tell attacks of equal AUC apart; 0 where nothing was named."""
    both = float(row["recall"]) + float(row["precision"])
    return 0.0 if math.isnan(both) else both


def _interval(row: Row) -> str:
    ci95 = row["auc_ci95"]
    return "no interval" if ci95 is None else f"95 % interval {ci95[0]:.2f}-{ci95[1]:.2f}"
