"""`foltr-audit stress secure-aggregation`: table, JSON and exit codes."""

from __future__ import annotations

import pytest

from tests.fixtures.command import run
from tests.fixtures.schemas import agrees_with_published

COMMAND = ("stress", "secure-aggregation", "--clients", 20, "--parameters", 6)


def test_the_default_keeps_its_promise_and_names_an_answer_for_the_rest() -> None:
    done = run(*COMMAND)
    assert (done.code, done.err) == (0, "")
    for words in ("both shares", "replayed", "all that is promised held", "tries per second"):
        assert words in done.out


def test_what_clients_refuse_is_what_the_defense_says() -> None:
    def broken(defense: str) -> set[str]:
        found = run(*COMMAND, "--defense", defense, "--json").json()
        return {row["name"] for row in found["attempts"] if row["outcome"] == "broken"}

    usual, forgetful = broken("secure-aggregation"), broken("secure-aggregation:once=false")
    assert forgetful - usual == {"both shares", "replayed round"}
    assert usual - broken("secure-aggregation:bind=true") == {"inconsistent models"}


def test_json_is_fixed_by_the_seed_but_for_the_measured_rate() -> None:
    first, second = (run(*COMMAND, "--seed", 3, "--json").json() for _ in range(2))
    agrees_with_published(first)
    assert first["schema"] == "foltr-audit/stress/1"
    assert first.pop("tries_per_second") > 0
    assert second.pop("tries_per_second") > 0
    assert first == second
    assert first["kept"] is True
    other = run(*COMMAND, "--seed", 4, "--json").json()
    assert other["attempts"] != first["attempts"]


def test_a_broken_promise_is_a_finding() -> None:
    done = run(*COMMAND, "--defense", "secure-aggregation:masks=false")
    assert done.code == 1
    assert "what is promised is broken" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--defense", "clip:norm=1"), "--defense"),
        (("--defense", "clip:norm=1+secure-aggregation"), "--defense"),
        (("--clients", 2), "expected at least 4"),
        (("--parameters", 0), "--parameters"),
        (("--defense", "secure-aggregation:threshold=50"), "aborts even if nobody drops out"),
    ],
)
def test_wrong_input_is_refused_in_one_line(options: tuple[object, ...], words: str) -> None:
    done = run(*COMMAND, *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
