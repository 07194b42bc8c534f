"""Lint checks that hold messages against the declared noise law, on small traces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from foltr_audit.defenses.gaussian import GaussianNoise

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import RoundContext
from foltr_audit.trace.lint import LintFinding, LintResult
from foltr_audit.utils.arrays import Floats
from tests.fixtures import lint_traces
from tests.fixtures.lint_traces import (
    LAPLACE,
    MESSAGES,
    Change,
    P,
    done_with,
    found_in,
    header_of,
    leaks,
    only,
    outcome,
    played,
)
from tests.fixtures.there import there

LAST = [f"noised:{LAPLACE}"]
EQUAL_OR_SHARED = ["messages that are equal bit for bit", "noise shared by messages that differ"]


def parts_of(done: LintResult, check: str) -> list[str]:
    return [gap.part for gap in outcome(done, check).not_looked_at]


# --- noise that is weaker than declared -----------------------------------------------------------


def less(factor: Any) -> Change:
    """A part of the noise, (M, P)."""
    return lambda _, learnt, noise: np.asarray(learnt + factor * noise)


@pytest.mark.parametrize("text", [LAPLACE, "gamma-share:n=3,scale=2.5"])
def test_weak_and_missing_noise_is_caught(text: str) -> None:
    header = header_of(noise=text)
    assert "weak-noise" not in leaks(found_in(header, played(header)))
    halved = only(found_in(header, played(header, less(0.5))), "weak-noise")
    assert "all in all" in halved.text
    column = only(found_in(header, played(header, less(np.arange(P) != 7))), "weak-noise")
    assert "coordinates 7 " in column.text
    assert column.example == "round 0, coordinate 7"
    client = only(found_in(header, played(header, less(np.arange(MESSAGES)[:, None] != 9))), "weak-noise")
    assert (client.messages, client.example) == (3, "round 0, message 9")


# --- noise that is used twice ---------------------------------------------------------------------


def test_noise_that_is_shared_is_caught() -> None:
    header = header_of()
    assert "reused-noise" not in leaks(found_in(header, played(header)))

    def shared(change: Change) -> LintFinding:
        return only(found_in(header, played(header, change)), "reused-noise")

    # One noise for a whole round may be small by chance, as that of message 0 is.
    by_round = shared(lambda _, learnt, noise: np.asarray(learnt + noise[1]))
    assert by_round.text.startswith("messages of one round")
    by_client = shared(lambda _, learnt, __: learnt + lint_traces.noise_of(LAPLACE, 0))
    assert by_client.text.startswith("messages of the same place in successive rounds")
    assert by_client.example == "round 1"
    within = shared(lambda _, learnt, noise: learnt + noise[:, :1])
    assert within.text.startswith("within 120 messages")
    assert within.share == 1.0


def test_bits_that_repeat_are_caught_without_any_law() -> None:
    header = header_of("update", noise=None)
    honest = played(header_of("update"))
    assert leaks(found_in(header, honest)) == set()

    def twins(round_: int, learnt: Floats, noise: Floats) -> Floats:
        changes = lint_traces.whole(round_, learnt, noise + lint_traces.noise_of(LAPLACE, round_))
        changes[3] = changes[11]
        return changes

    def again(round_: int, learnt: Floats, noise: Floats) -> Floats:
        return lint_traces.whole(0 * round_, lint_traces.updates(0), noise + lint_traces.noise_of(LAPLACE, 0))

    def shifted(round_: int, learnt: Floats, noise: Floats) -> Floats:
        changes = lint_traces.whole(round_, learnt, noise)
        changes[5] = 2.25
        return changes

    equal = next(f for f in found_in(header, played(header, twins)) if f.check == "reused-noise")
    assert (equal.messages, equal.example) == (6, "round 0, message 3")
    repeated = only(found_in(header, played(header, again)), "reused-noise")
    assert (repeated.messages, repeated.example) == (2 * MESSAGES, "round 1, message 0")
    constant = [f for f in found_in(header, played(header, shifted)) if "one and the same number" in f.text]
    assert [f.messages for f in constant] == [3]


# --- false alarms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [LAPLACE, "gaussian:sigma=2", "gamma-share:n=2,scale=2.5"])
def test_sound_noise_raises_no_alarm(text: str) -> None:
    """30 traces per law: each test allows one false alarm in a billion."""
    header = header_of(noise=text)

    def drawn(round_: int, learnt: Floats, noise: Floats) -> Floats:
        gaussian = 2 * np.random.default_rng([9, round_, seed]).normal(size=noise.shape)
        own = gaussian if text.startswith("gauss") else noise
        return np.asarray(learnt + own)

    for seed in range(30):
        assert leaks(found_in(header, played(header, drawn, seed))) == set()


# --- the chain, by its events, its names, or not at all ------------------------------------------


def test_a_law_without_a_chain_is_taken_as_added_last() -> None:
    header = replace(header_of(), knowledge={"noise": LAPLACE})
    assert done_with(header, played(header)).clean
    assert leaks(found_in(header, played(header, less(0.5)))) == {"weak-noise", "reused-noise"}


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        (["home-made"], "home-made after laplace:scale=2.5 may change a message"),
        (["laplace:eps=1,sensitivity=2.5", "home-made:x=1"], "home-made:x=1 after laplace:scale=2.5 may"),
        (["laplace:eps=1,sensitivity=2.5", "quantise:range=1,levels=9"], "quantise:range=1,levels=9 after"),
        (["home-made", "laplace:eps=1,sensitivity=2.5"], None),
        (["top-k:k=5", "gamma-laplace:eps=1,sensitivity=3"], None),
        (["laplace:eps=1,sensitivity=2.5", "gaussian:sigma=1"], "the header's noise is laplace:scale=2.5"),
    ],
)
def test_without_events_the_names_of_built_ins_are_read(chain: list[str], reason: str | None) -> None:
    header = header_of(defense=chain)
    told = outcome(done_with(header, played(header)), "weak-noise")
    assert told.reason is None if reason is None else str(told.reason).startswith(reason)


def test_a_name_that_is_not_known_is_no_proof_of_equal_numbers() -> None:
    """A defense that nothing is known of may make numbers equal: that is neither a leak nor clean."""
    header = header_of(defense=["home-made"])
    rounds = played(header, lambda _, learnt, noise: np.where(noise < 0.5, 0.0, learnt + noise))
    done = done_with(header, rounds)
    assert leaks(done.findings) == set()
    assert parts_of(done, "reused-noise") == EQUAL_OR_SHARED
    assert not done.clean


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (LAST, None),
        (["opaque:home-made", *LAST], None),
        (["rounded:step=0.5,nearest", *LAST], None),
        (["noised:gamma-share:n=1,scale=2.5"], None),
        ([*LAST, "opaque:home-made"], "opaque:home-made after laplace:scale=2.5 may change a message"),
        ([*LAST, "rounded:step=0.5"], "rounded:step=0.5 after laplace:scale=2.5 may change a message"),
        ([*LAST, "resized:of=update,factor=1"], "resized:of=update,factor=1 after"),
        ([*LAST, "blurred:by=2"], "blurred:by=2 after laplace:scale=2.5 may change a message"),
        (["noised:gaussian:sigma=2"], "the header's noise is laplace:scale=2.5, and what is added last is"),
        ([], "what comes after laplace:scale=2.5 may change a message"),
    ],
)
def test_events_say_whether_noise_is_added_last(events: list[str], reason: str | None) -> None:
    """Whatever the defenses are called."""
    header = header_of(defense=["by-others"], events=events)
    told = outcome(done_with(header, played(header)), "weak-noise")
    assert told.reason is None if reason is None else str(told.reason).startswith(reason)


def test_events_alone_tell_the_law() -> None:
    header = replace(header_of(), knowledge={"events": LAST})
    done = done_with(header, played(header_of()))
    assert done.noise_declared == "gamma-share:n=1,scale=2.5"  # Laplace noise as laws write it
    assert done.clean


def test_a_law_that_is_not_known_is_not_looked_at() -> None:
    header = header_of(noise="student:nu=3", events=["noised:student:nu=3"])
    done = done_with(header, played(header, lambda _, learnt, __: learnt + lint_traces.noise_of(LAPLACE, 0)))
    assert outcome(done, "weak-noise").reason == "the law student:nu=3 is not known here"
    assert parts_of(done, "reused-noise") == EQUAL_OR_SHARED


# --- what could not be looked at ------------------------------------------------------------------


def test_numbers_that_are_too_coarse_are_not_looked_at() -> None:
    """In float32, and around ten million, a Laplace scale of 2.5 is next to the last digit."""
    header = header_of(dtype="float32")
    rounds = [
        replace(record, messages=record.messages + np.float32(factor))
        for record, factor in zip(played(header), (0.0, 3e8, 0.0), strict=True)
    ]
    done = done_with(header, rounds)
    assert parts_of(done, "weak-noise") == ["1 round of 3"]
    assert parts_of(done, "reused-noise") == ["noise shared by messages that differ, in 1 round of 3"]


def test_a_single_number_tells_little() -> None:
    header = header_of(parameters=1)
    done = done_with(header, [lint_traces.record_of(header, 0, np.array([[1.7]]))])
    assert parts_of(done, "weak-noise") == [
        "noise missing in one message",
        "noise missing in one coordinate",
        "noise of half the declared variance",
    ]
    assert parts_of(done, "reused-noise") == ["one shift for all coordinates"]


# --- noise on a grid ------------------------------------------------------------------------------


def test_messages_that_a_coarse_grid_makes_equal_are_no_leak() -> None:
    """Five coordinates on a coarse grid are equal by chance: that was called reused noise once."""
    chain = DefenseChain(parse_chain([f"skellam:sigma={0.6 * MESSAGES**0.5},step=0.5"]))
    done = lint_traces.of_chain(chain, parameters=5)
    assert leaks(done.findings) == set()
    assert parts_of(done, "reused-noise")[0] == "messages that are equal bit for bit"


def test_equal_messages_on_a_fine_grid_are_a_leak() -> None:
    law = "skellam:sigma=2,step=0.5"
    header = header_of(noise=law, events=["rounded:step=0.5,nearest", f"noised:{law}"])

    def twice(round_: int, learnt: Floats, noise: Floats) -> Floats:
        noise[7] = noise[3]
        return noise

    found = [f for f in done_with(header, played(header, twice)).findings if f.check == "reused-noise"]
    assert {f.severity for f in found} == {"leak"}
    assert "equal another one of the round bit for bit" in found[0].text


# --- intact chains of the built-in defenses -------------------------------------------------------


NOISE = {
    "laplace": "laplace:eps=1.2,sensitivity=3",
    "gaussian": "gaussian:sigma=2",
    "gaussian-shares": "gaussian-shares:sigma=8",
    "skellam": "skellam:sigma=8,step=0.5",
    "skellam, fine": "skellam:sigma=8,step=0.001",
    "discrete-gaussian": "discrete-gaussian:sigma=8,step=0.5",
}
OTHERS = {
    "alone": (),
    "top-k": ("top-k:k=30",),
    "random-k": ("random-k:k=30",),
    "quantise": ("quantise:range=6,step=0.01",),
    "clip": ("clip:norm=4,at=message",),
}


def of(noise: str, other: str = "alone", place: str = "before", *, seed: int = 0) -> LintResult:
    own, more = (NOISE[noise],), OTHERS[other]
    texts = more + own if place == "before" else own + more
    kind, dtype = ("model", "float32") if seed % 2 else ("update", "float64")
    chain = DefenseChain(parse_chain(texts))
    return lint_traces.of_chain(
        chain, rounds=3, clients=40, parameters=46, seed=seed, kind=kind, dtype=dtype, size=0.1
    )


@pytest.mark.parametrize("noise", NOISE)
def test_noise_that_is_added_last_is_looked_at(noise: str) -> None:
    for other in OTHERS:
        done = of(noise, other, "before", seed=1)
        assert outcome(done, "weak-noise").state == "clean"
        assert outcome(done, "reused-noise").state == "clean"


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("other", ["top-k", "random-k", "quantise", "clip"])
def test_what_comes_after_the_noise_is_named(noise: str, other: str) -> None:
    done = of(noise, other, "after", seed=1)
    weak, reused = outcome(done, "weak-noise"), outcome(done, "reused-noise")
    assert weak.state == reused.state == "not looked"
    assert there(weak.reason).endswith("may change a message")
    assert weak.reason in [gap.why for gap in reused.not_looked_at]
    assert not done.clean
    assert leaks(done.findings) == set()


def test_only_noise_that_nothing_changes_afterwards_is_held_against_its_law() -> None:
    """Wide noise that is clipped away and narrow noise after it: the sum is no sum of both laws."""
    chain = ("gaussian:sigma=50", "clip:norm=0.5,at=message", "gaussian:sigma=0.2")
    done = lint_traces.of_chain(DefenseChain(parse_chain(chain)), parameters=46)
    assert done.noise_declared == "gaussian:sigma=50+gaussian:sigma=0.2"
    assert leaks(done.findings) == set()
    assert outcome(done, "weak-noise").reason is None


def test_two_noises_in_a_row_are_held_against_both_laws() -> None:
    class Missing(GaussianNoise):
        """Declares noise and adds none."""

        def on_message(self, models: Floats, context: RoundContext) -> Floats:
            del context
            return models.copy()

    laplace = parse_chain(["laplace:eps=1,sensitivity=1"])
    sound = lint_traces.of_chain(DefenseChain((GaussianNoise(sigma=2.0), *laplace)), parameters=46)
    assert leaks(sound.findings) == set()
    assert outcome(sound, "weak-noise").reason is None
    missing = lint_traces.of_chain(DefenseChain((Missing(sigma=2.0), *laplace)), parameters=46)
    assert leaks(missing.findings) >= {"weak-noise"}
