"""An attack's report on a terminal of 80 columns: what stands there, and that nothing in it is markup."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.report.results.attack import AttackReport, joined, print_attack
from foltr_audit.rng import Streams
from foltr_audit.utils.formatting import epsilon, short
from tests.fixtures.evidence import random_evidence
from tests.fixtures.result_rows import dataset, plain, rows_of_clicks

DATA = dataset(source="data", synthetic=False)


def setting(eps: float) -> dict[str, Any]:
    return {
        "trained_on": "perfect",
        "eps_claimed": eps,
        "defense": f"noise:eps={eps}",
        "learner": "fpdgd",
        "pdgd": "pham-2022",
        "sees": "message and lists",
    }


def judged_lists(seed: int = 1, **changes: Any) -> ClickEvidence:
    """Lists of a baseline and two attacks, of which one gives probabilities, and one was refused."""
    judged = random_evidence(seed, lists=250, silent=0.2)
    guessed = judged.guessed["attack"]
    p = replace(guessed, scores=np.clip(guessed.scores / 4, 0, 1))
    return replace(
        judged,
        **{
            "guessed": {"first-position": guessed, "olsr": guessed, "map": p},
            "baselines": frozenset({"first-position"}),
            "probabilities": frozenset({"map"}),
            "refused": {"lad": "the observer does not know: order"},
            **changes,
        },
    )


def report_of(
    settings: dict[float, ClickEvidence], queries: tuple[str, ...] = (), click_model: str = "perfect"
) -> AttackReport:
    pieces = [
        rows_of_clicks(judged, click_model, setting(eps), Streams(1), queries)
        for eps, judged in settings.items()
    ]
    return AttackReport(config={"seed": 1}, dataset=DATA, utility=(), **vars(joined(pieces)))


def printed(report: AttackReport, width: int = 80) -> str:
    text = io.StringIO()
    print_attack(report, Console(file=text, width=width))
    assert all(len(line) <= width for line in text.getvalue().splitlines())
    return text.getvalue()


def flat(text: str) -> str:
    """The text without the line breaks that the width put in."""
    return " ".join(text.split())


def row(report: AttackReport, kind: str, method: str) -> dict[str, Any]:
    (found,) = [one for one in plain(getattr(report, kind)) if one["method"] == method]
    return dict(found)


def beside(value: float, interval: list[float] | None) -> str:
    if interval is None:
        return short(value)
    ends = "-".join(short(end, 2).replace("1.00", "1.0") for end in interval)
    return f"{short(value)} {ends}"


def test_every_number_stands_in_its_table() -> None:
    report = report_of({1.2: judged_lists()})
    text = printed(report)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    found = row(report, "results", "map")
    assert found["tpr_at_1_ci95"] is not None
    assert found["tpr_at_01_ci95"] is None
    assert "too few for an interval)" in flat(text)
    scores = [beside(found[name], found[f"{name}_ci95"]) for name in
              ("tpr_at_1", "tpr_at_01", "accuracy_identifiable")]  # fmt: skip
    assert f"map 1.2 {' '.join(scores)}" in lines
    assert "method claimed TPR@1% TPR@.1% identifiable" in lines
    told = row(report, "any_click", "olsr")
    values = [beside(told[name], told[f"{name}_ci95"]) for name in ("auc", "accuracy")]
    assert f"olsr 1.2 {' '.join(values)}" in lines
    assert f"always yes 1.2 .500 {beside(told['base_rate'], told['base_rate_ci95'])}" in lines
    calibrated = row(report, "calibration", "map")
    brier = beside(calibrated["brier"], calibrated["brier_ci95"])
    assert f"map: Brier score {brier} (base rate " in flat(text)
    assert "olsr: Brier" not in text
    assert "lad: cannot run: the observer does not know: order" in lines
    (facts,) = plain(report.identifiability)
    assert f"identifiable: {100 * facts['identifiable']:.1f} % of documents; rank" in flat(text)
    assert f"{facts['all_clicked']} lists all clicked, {facts['without_click']} without a click" in flat(text)
    assert f"{found['unclicked_documents']} unclicked documents" in flat(text)
    assert not {"random:k=3", "random:k=4"} & {line.split(" ")[0] for line in lines[lines.index(
        "method claimed TPR@1% TPR@.1% identifiable") :]}  # fmt: skip


def test_messages_of_several_lists_have_a_column_of_their_own() -> None:
    judged = judged_lists()
    alone, several = (report_of({1.2: one}) for one in (judged, replace(judged, message=np.arange(250) // 2)))
    assert "all lists of a message right" not in flat(printed(alone))
    text = printed(several)
    found = row(several, "results", "olsr")
    ends = beside(found["exact_message"], found["exact_message_ci95"])
    line = next(line for line in text.splitlines() if line.startswith("olsr") and ends in line)
    assert line.rstrip().endswith(ends)
    assert "all lists of a message right" in flat(text)
    random = next(line for line in text.splitlines() if line.startswith("random:k=mean") and ".010" in line)
    assert random.rstrip().endswith("-")


def test_several_epsilons_stand_beside_each_other() -> None:
    report = report_of({1.2: judged_lists(1), np.inf: judged_lists(2)})
    text = flat(printed(report))
    for eps in (1.2, np.inf):
        assert f"claimed {epsilon(eps)}: identifiable: " in text
        assert f"map: claimed {epsilon(eps)}: Brier score" in text
        assert f"always yes {epsilon(eps)} .500" in text
    assert text.count("lad: cannot run") == 1


@pytest.mark.parametrize("clicked", [True, False])
def test_where_all_or_no_lists_have_a_click_nothing_is_said_about_any(clicked: bool) -> None:
    judged = judged_lists()
    text = flat(printed(report_of({1.2: judged.at(judged.has_click == clicked)})))
    assert "any click at all?" not in text
    assert "identifiable: " in text


def test_no_list_at_all() -> None:
    text = flat(printed(report_of({1.2: judged_lists().at(np.zeros(250, dtype=np.bool_))}, ("q0",))))
    assert "No list with a click was attacked, so nothing can be said." in text
    assert "query q0: not attacked" in text


def test_named_queries_show_what_was_clicked_and_named() -> None:
    judged = judged_lists().at(np.array([3, 4]))
    judged = replace(judged, query=np.array(["one", "two"]))
    answer = replace(
        judged.guessed["olsr"],
        guess=np.array([[True, False, False, False, False, True], [False, False, True, False, False, False]]),
    )
    judged = replace(
        judged,
        shown=np.array([[31, 7, 2, -1, -1, -1], [5, 4, 3, 2, 1, 0]]),
        clicks=np.array(
            [[True, False, True, False, False, False], [False, False, True, False, False, False]]
        ),
        guessed={"olsr": answer},
    )
    text = printed(report_of({1.2: judged}, ("one", "two", "three")))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    start = lines.index("query claimed who documents exact")
    assert [line for line in lines[start + 2 :] if line][:4] == [
        "one 1.2 shown 31* 7 2*",
        "olsr 31* no",
        "two 1.2 shown 5 4 3* 2 1 0",
        "olsr 3* yes",
    ]
    assert "query three: not attacked" in lines
    assert "query one: not attacked" not in lines


def test_names_from_files_are_no_markup() -> None:
    judged = judged_lists(refused={"lad[bold]": "no [red]order[/red]"})
    judged = replace(judged, query=np.char.add("[red]", judged.query))
    text = flat(printed(report_of({1.2: judged}, ("[red]q1", "[/red]"), click_model="[bold]clicks")))
    assert "[red]q1" in text
    assert "query [/red]: not attacked" in text
    assert "lad[bold]: cannot run: no [red]order[/red]" in text
    assert "[bold]clicks clicks, the server sees the message and lists" in text


def test_the_sentence_at_the_end_is_that_of_the_results() -> None:
    judged = judged_lists()
    best = replace(judged.guessed["olsr"], scores=judged.clicks.astype(np.float64), guess=judged.clicks)
    text = flat(printed(report_of({1.2: replace(judged, guessed={"olsr": best})})))
    assert (
        "a server that sees messages and lists recovers 100 % of the perfect users' clicks with olsr" in text
    )


def test_bits_stand_in_a_table_of_their_own() -> None:
    judged = judged_lists()
    assert "in bits per list" not in printed(report_of({1.2: judged}))
    L = judged.query.size
    weighed = replace(judged.guessed["map"], surprisal=np.ones(L))
    told = replace(judged, surprisal=np.full(L, 3.0), guessed={**judged.guessed, "map": weighed})
    report = report_of({1.2: told})
    found = row(report, "information", "map")
    assert found["bits"] == pytest.approx(2.0, abs=1e-5)
    lines = [" ".join(line.split()) for line in printed(report).splitlines()]
    assert "what the server learns, in bits per list" in lines
    assert f"map 1.2 {beside(found['bits'], found['bits_ci95'])} 1.000 3.000 66.7 %" in lines
