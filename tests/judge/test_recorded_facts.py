"""Declared facts reach attacks; wrong ones, and the truth of other messages, are found, right ones never."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import TraceError
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.fact_check import FactCheck, TruthCheck, check_facts, check_truth
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages
from foltr_audit.privacy.noise import parse_law
from foltr_audit.rng import Streams
from foltr_audit.trace import Trace, TraceWriter
from tests.fixtures import foreign_trace, listwise_trace
from tests.fixtures.command import SMALL, refusal, run
from tests.fixtures.foreign_trace import K, System
from tests.fixtures.there import there

SHARES = 100
B = System(pairs="last-click+1", shares=SHARES)
"""The system of most mistakes: with all pairs, the opposite clicks make the opposite message."""

Change = Callable[[RoundRecord], dict[str, Any]]


def trace_of(
    folder: Path,
    system: System,
    facts: dict[str, Any] | None = None,
    change: Change | None = None,
    **formats: Any,
) -> Path:
    """A trace with other facts than the right ones, or with other arrays."""
    kind = formats.pop("kind", "update")
    rounds = foreign_trace.records(system, **formats)
    if change is not None:
        rounds = [(replace(record, **change(record)), truth) for record, truth in rounds]
    header = foreign_trace.header(system, facts={"aggregate": "other", **(facts or {})}, kind=kind)
    return foreign_trace.write(folder, header, rounds)


def checked(folder: Path) -> FactCheck:
    trace = Trace.open(folder)
    return check_facts(trace, Observer(trace.header, None))


def truth_checked(folder: Path) -> TruthCheck:
    trace = Trace.open(folder)
    return check_truth(trace, Observer(trace.header, None))


def clipped_updates(record: RoundRecord) -> dict[str, Any]:
    norms = np.linalg.norm(record.messages, axis=1, keepdims=True) + 1e-300
    return {"messages": record.messages * np.minimum(1.0, 0.01 / norms)}


def normal_noise(sigma: float) -> Change:
    rng = np.random.default_rng(3)
    return lambda record: {"messages": record.messages + sigma * rng.normal(size=record.messages.shape)}


def other_order(record: RoundRecord) -> dict[str, Any]:
    """Each list in another order than the one that was clicked."""
    rng, shown, features = np.random.default_rng(0), record.shown.copy(), np.array(record.features)
    for row, length in enumerate(record.lengths.tolist()):
        order = rng.permutation(length)
        shown[row, :length], features[row, :length] = shown[row, order], features[row, order]
    return {"shown": shown, "features": features}


# --- right facts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("shares", "lists"), [(None, 1), (SHARES, 1), (1000, 1), (None, 4), (1000, 4)])
@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_right_facts_and_clicks_explain_all(
    tmp_path: Path, shares: int | None, lists: int, pairs: str, clip: float | None
) -> None:
    folder = trace_of(tmp_path / "t", System(pairs=pairs, shares=shares, clip=clip, lists=lists))
    if lists == 1:
        found = checked(folder)
        assert (found.state, found.explained, found.warnings) == ("explained", 1.0, ())
        assert found.messages > 100
    if shares != SHARES:
        truth = truth_checked(folder)
        assert truth.reason is None
        assert truth.messages > 40


@pytest.mark.parametrize("noise", ["none", "gamma-share:n=1000,scale=0.25", None, "gamma-share:n=60,scale=9"])
def test_the_noise_need_not_be_declared_rightly(tmp_path: Path, noise: str | None) -> None:
    found = checked(trace_of(tmp_path / "t", B, {"noise": noise}))
    assert found.state == "explained"
    assert (found.explained or 0) > 0.97


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_numbers_are_explained(tmp_path: Path, dtype: str) -> None:
    system = replace(B, shares=None)
    rounds = foreign_trace.records(system, feature_dtype="float32", dtype=dtype)
    folder = foreign_trace.write(tmp_path / "t", foreign_trace.header(system, dtype=dtype), rounds)
    found = checked(folder)
    assert (found.state, found.explained) == ("explained", 1.0)
    assert truth_checked(folder).reason is None


def test_models_are_explained_as_updates_are(tmp_path: Path) -> None:
    models = trace_of(tmp_path / "t", B, kind="model", **MISTAKES["models as updates"])
    assert checked(models).explained == 1.0


def test_a_run_is_explained(tmp_path: Path) -> None:
    options = ("--data", "synthetic:mq2007:60", "--clients", 40, "--rounds", 3, "--eps", 1.2)
    done = run("attack", *options, "--click-model", "perfect", "--method", "olsr", "--out", tmp_path / "run")
    assert done.code == 0
    found = run("trace", "check-facts", tmp_path / "run", "--json")
    assert found.code == 0
    training, fresh = found.json()["facts"]
    assert (training["state"], training["reason"]) == ("not checked", "messages of 4 lists")
    assert (fresh["state"], fresh["explained"]) == ("explained", 1.0)


# --- wrong facts ----------------------------------------------------------------------------------

MISTAKES: dict[str, dict[str, Any]] = {
    "learning rate .2": {"facts": {"learning_rate": 0.2}},
    "learning rate .11": {"facts": {"learning_rate": 0.11}},
    "clip": {"facts": {"clip_norm": 0.02, "clip_ord": 2}},
    "models as updates": {"change": lambda r: {"messages": r.messages + r.parameters}},
    "updates as models": {"kind": "model"},
    "raw gradients": {"change": lambda r: {"messages": r.messages / 0.1}},
    "next model": {"change": lambda r: {"parameters": r.aggregate}},
    "pairs": {"facts": {"pairs": "all"}},
    "sign": {"change": lambda r: {"messages": -r.messages}},
    "clip of updates": {"change": clipped_updates},
    "pairs that reach too little far": {"facts": {"pairs": "last-click+1"}},
    "no clip": {"facts": {"clip_norm": None, "clip_ord": None}},
    "order": {"change": other_order},
    "normaliser": {"facts": {"normaliser": "shown"}},
}
SYSTEMS = {
    **dict.fromkeys(("raw gradients", "clip of updates"), replace(B, shares=None)),
    "pairs that reach too little far": System(shares=SHARES),
    "no clip": System(shares=1000, clip=0.3),
    "normaliser": System(normaliser="candidates", pairs="last-click+1", shares=None),
}
"""The systems of some mistakes, where it is not B."""
REASONS = {"order": "the order of the lists", "normaliser": "over all candidates: give the data with --data"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_declaration_is_found_and_not_blamed_on_the_truth(tmp_path: Path, name: str) -> None:
    folder = trace_of(tmp_path / "t", SYSTEMS.get(name, B), **MISTAKES[name])
    found = checked(folder)
    assert found.state == "wrong"
    assert (found.explained or 0) < {"order": 0.1, "normaliser": 0.7}.get(name, 0.6)
    assert found.text in found.warnings
    assert REASONS.get(name, "") in (found.reason or "")
    truth = truth_checked(folder)
    assert truth.reason is not None
    assert truth.doubtful or name in ("pairs that reach too little far", "normaliser")


def letor_of(path: Path) -> Path:
    """The candidates of `foreign` as a file."""
    rows = [
        f"{grade} qid:{query} " + " ".join(f"{i}:{value!r}" for i, value in enumerate(values.tolist(), 1))
        for query, (features, grades) in enumerate(foreign_trace.pool())
        for values, grade in zip(features, grades.tolist(), strict=True)
    ]
    path.mkdir()
    for part in ("train", "vali", "test"):
        (path / f"{part}.txt").write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("declared", ["shown", "candidates"])
def test_with_the_data_the_normaliser_is_checked(tmp_path: Path, declared: str) -> None:
    """The parser keeps every digit of float64 features, so that all messages are explained."""
    system = System(normaliser="candidates", pairs="last-click+1", shares=None)
    data = letor_of(tmp_path / "data")
    fingerprint = fa.load_data(str(data), normalise="none", dtype="float64").fingerprint
    header = foreign_trace.header(
        system, facts={"normaliser": declared, "feature_dtype": "float64"}, embeds_features=False
    )
    dataset = replace(header.dataset, source=str(data), fingerprint=fingerprint, parts=("train",))
    rounds = [(replace(record, features=None), truth) for record, truth in foreign_trace.records(system)]
    folder = foreign_trace.write(tmp_path / "t", replace(header, dataset=dataset), rounds)
    done = run("trace", "check-facts", folder, "--json")
    (row,) = done.json()["facts"]
    expected = (0, "explained", True) if declared == "candidates" else (1, "wrong", False)
    assert (done.code, row["state"], row["explained"] == 1.0) == expected


def test_of_all_pairs_the_sign_is_told_by_the_number_of_clicks(tmp_path: Path) -> None:
    """Clicks on the other documents make the opposite message: both signs explain all of them."""
    found = checked(trace_of(tmp_path / "t", System(), change=lambda r: {"messages": -r.messages}))
    assert (found.state, found.explained) == ("explained", 1.0)
    assert "of the shown documents would then be clicked, with sign -1" in found.warnings[0]


# --- what cannot be told --------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", [{}, {"facts": {"learning_rate": 0.2}}])
@pytest.mark.parametrize("noise", ["laplace:scale=2.5", "gaussian:sigma=0.3", "gamma-share:n=5,scale=2.5"])
def test_noise_that_hides_all_accuses_nobody(tmp_path: Path, noise: str, mistake: dict[str, Any]) -> None:
    law = there(parse_law(noise))

    def noised(record: RoundRecord) -> dict[str, Any]:
        streams = Streams(3).clients("test", record.round, np.arange(record.n_messages))
        return {"messages": record.messages + law.sample(streams, record.messages.shape[1])}

    facts = {"noise": noise, **mistake.get("facts", {})}
    found = checked(trace_of(tmp_path / "t", replace(B, shares=None), facts, noised))
    assert found.state == "cannot tell"
    assert found.warnings == ()
    assert "noise of the declared law is larger than the updates" in found.text


@pytest.mark.parametrize(("rate", "state"), [(0.1, "explained"), (0.5, "wrong")])
def test_noise_that_is_small_beside_the_updates_is_counted(tmp_path: Path, rate: float, state: str) -> None:
    """Gaussian noise on every number, so that none is reproduced exactly."""
    facts = {"noise": "gaussian:sigma=0.0005", "learning_rate": rate}
    folder = trace_of(tmp_path / "t", replace(B, shares=None), facts, normal_noise(0.0005))
    assert checked(folder).state == state


def test_a_factor_that_a_defense_makes_accuses_nobody(tmp_path: Path) -> None:
    """`random-k` multiplies what it sends: the declared step size is right, and map's step is not."""
    options = ("--data", "synthetic:mq2007:60", "--clients", 40, "--rounds", 2)
    chain = ("--click-model", "informational", "--defense", "random-k:k=5,rescale=true")
    done = run("attack", *options, *chain, "--method", "olsr", "--out", tmp_path / "run")
    assert done.code == 0
    found = run("trace", "check-facts", tmp_path / "run")
    assert found.code == 0
    assert "cannot tell: few messages are explained, and" in found.out
    assert "warning" not in found.out


QUIET = replace(B, shares=None)
SIGNS: Change = lambda record: {"messages": np.sign(record.messages)}  # noqa: E731


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"system": replace(B, lists=4)}, "not checked", "messages of 4 lists"),
        ({"facts": {"learning_rate": None}}, "not checked", "the header does not say learning_rate"),
        ({"facts": {"normaliser": "candidates"}}, "not checked", "PDGD normalises over all candidates"),
        (
            {"system": QUIET, "facts": {"events": ["opaque:sign"], "noise": None}, "change": SIGNS},
            "cannot tell",
            "opaque:sign may change messages",
        ),
        (
            {"system": QUIET, "facts": {"noise": None}, "change": normal_noise(0.3)},
            "cannot tell",
            "does not say what noise there is",
        ),
    ],
)
def test_what_cannot_be_told_says_why(
    tmp_path: Path, changes: dict[str, Any], state: str, reason: str
) -> None:
    found = checked(trace_of(tmp_path / "t", **{"system": B, **changes}))
    assert (found.state, found.warnings) == (state, ())
    assert reason in found.text


def test_messages_that_are_no_steps_are_not_checked(tmp_path: Path) -> None:
    options = ("--data", "synthetic:mq2007:60", "--clients", 20, "--rounds", 2, "--learner", "pdgd")
    assert run("train", *options, "--out", tmp_path / "run").code == 0
    done = run("trace", "check-facts", tmp_path / "run")
    assert done.code == 0
    assert "not checked: messages of kind" in done.out


# --- where it is seen -----------------------------------------------------------------------------


def test_the_command_and_every_attack_say_it_first(tmp_path: Path) -> None:
    folder = trace_of(tmp_path / "t", B, **MISTAKES["sign"])
    done = run("trace", "check-facts", folder)
    assert done.code == 1
    shown = run("attack", "--trace", folder, "--method", "map", "--method", "lad")
    assert shown.out.splitlines()[0].startswith("declared facts explain")
    assert "warning FA201: declared facts explain" in shown.err
    assert "with the wrong sign: AUC .0" in " ".join(shown.out.split())
    assert "better than guessing" not in shown.out
    report = run("attack", "--trace", folder, "--method", "map", "--json").json()
    (row,) = report["facts"]
    assert row["state"] == "wrong"
    assert any("with the wrong sign" in row["warning"] for row in report["warnings"])


def test_map_below_lad_is_a_doubt(tmp_path: Path) -> None:
    folder = trace_of(tmp_path / "t", B, {"learning_rate": 0.2})
    report = fa.attack_trace(folder, ["map", "lad"])
    assert any("the declared facts do not fit the messages" in row["warning"] for row in report.warnings)
    right = fa.attack_trace(trace_of(tmp_path / "right", B), ["map", "lad"])
    assert right.warnings == ()
    assert right.facts[0]["explained"] == 1.0


def test_counts_against_interactions_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another writer may have left them: this one refuses."""
    monkeypatch.setattr("foltr_audit.trace.writer.contradictions", lambda header, record: [])
    folder = trace_of(tmp_path / "t", B, {"interactions": 4})
    assert checked(folder).contradictions == ("interactions is 4, but a message of round 0 counts 1",)
    assert run("trace", "check-facts", folder).code == 1
    assert run("trace", "validate", folder).code == 3


# --- lists that follow from seeds -----------------------------------------------------------------


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds") / "run"
    options = ("--data", "synthetic:mq2007:60", "--clients", 20, "--rounds", 2, "--learner", "foltr-es")
    assert run("train", *options, "--out", folder).code == 0
    return folder


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("", "explain 100 % of 40 messages"),
        ("sigma=5", "wrong"),
        ("antithetic=false", "wrong"),
        ("perturbation=numpy-randomstate", "wrong"),
        ("perturbation=other", "not checked: the header does not say perturbation"),
    ],
)
def test_seeds_and_facts_explain_the_lists(own_run: Path, known: str, said: str) -> None:
    options = ("--know", known) if known else ()
    found = run("trace", "check-facts", own_run, *options, "--json").json()["facts"][0]
    assert said in f"{found['state']}: {found['text']}"


Rounds = list[tuple[RoundRecord, RoundTruth]]
TruthChange = Callable[[Rounds], Rounds]

PLAIN = System(shares=None)


def with_clicks(rounds: Rounds, clicks: Sequence[Any]) -> Rounds:
    return [
        (record, replace(truth, clicks=mine)) for (record, truth), mine in zip(rounds, clicks, strict=True)
    ]


def shifted(rounds: Rounds) -> Rounds:
    """All clicks one row down, as far as the list of a row goes."""
    rows = np.roll(np.concatenate([truth.clicks for _, truth in rounds]), 1, axis=0)
    ends = np.cumsum([len(truth.clicks) for _, truth in rounds])[:-1]
    return with_clicks(
        rounds,
        [mine & (record.shown >= 0) for mine, (record, _) in zip(np.split(rows, ends), rounds, strict=True)],
    )


def swapped(rounds: Rounds) -> Rounds:
    """The truth of two clients of each round is that of each other."""
    out = []
    for record, truth in rounds:
        rows = np.arange(len(truth.clicks))
        some = np.flatnonzero(truth.clicks.any(axis=1))
        one, other = record.slot == record.slot[some[0]], record.slot == record.slot[some[-1]]
        rows[one], rows[other] = np.flatnonzero(other), np.flatnonzero(one)
        out.append(truth.clicks[rows] & (record.shown >= 0))
    return with_clicks(rounds, out)


def other_rounds(rounds: Rounds) -> Rounds:
    """The truth of the next round, which only a search of other clicks finds."""
    following = [truth for _, truth in (*rounds[1:], rounds[0])]
    return with_clicks(
        rounds,
        [truth.clicks & (record.shown >= 0) for (record, _), truth in zip(rounds, following, strict=True)],
    )


CHANGES = {"shift": shifted, "swap": swapped, "rounds": other_rounds}


def recorded(folder: Path, system: System, change: TruthChange | None = None, **header: Any) -> Path:
    formats = {"dtype": header["dtype"]} if "dtype" in header else {}
    rounds = foreign_trace.records(system, **formats)
    rounds = rounds if change is None else change(rounds)
    return foreign_trace.write(folder, foreign_trace.header(system, **header), rounds)


def rewrite(folder: Path, change: TruthChange) -> None:
    """Change the truth of a trace in place; all hashes are those of the new files."""
    trace, new = Trace.open(folder), folder.with_name("new")
    with TraceWriter(new, trace.header) as writer:
        for record, truth in change(list(zip(trace.rounds(), trace.truths(), strict=True))):
            writer.write(record, truth)
    shutil.rmtree(folder)
    new.rename(folder)


# --- the right truth ------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1e-5, 1e-4, 5e-4, 5e-3, 0.3])
def test_noise_never_accuses_the_right_truth(tmp_path: Path, sigma: float) -> None:
    """More rounds than one sample, with noise from next to nothing to far above the updates."""
    for seed in range(8):
        system, facts = replace(B, shares=None, seed=seed), {"noise": f"gaussian:sigma={sigma}"}
        found = truth_checked(trace_of(tmp_path / f"{seed}", system, facts, normal_noise(sigma)))
        assert (found.reason is None) == (sigma < 0.3), found.text


@pytest.mark.parametrize("pairs", ["all", "last-click+1"])
def test_reversed_messages_are_not_blamed_on_the_truth(tmp_path: Path, pairs: str) -> None:
    """Of all pairs the opposite clicks explain them, as those of malicious clients that reverse updates."""

    def reversed_half(record: RoundRecord) -> dict[str, Any]:
        sign = np.where(np.arange(record.n_messages) % 2, -1.0, 1.0)
        return {"messages": sign[:, np.newaxis] * record.messages}

    found = truth_checked(trace_of(tmp_path / "t", replace(PLAIN, pairs=pairs), change=reversed_half))
    assert "a fact or the truth may be wrong" in found.text


# --- the truth of other messages ------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("lists", "shares"), [(1, None), (4, 1000)])
def test_the_truth_of_others_is_refused(tmp_path: Path, change: str, lists: int, shares: int | None) -> None:
    folder = recorded(tmp_path / "t", System(lists=lists, shares=shares), CHANGES[change])
    with pytest.raises(TraceError, match=r"clicks-00000\.npz: round 0, message \d+: .* from other clicks"):
        truth_checked(folder)


@pytest.mark.parametrize("noise", ["laplace:scale=2.5", "gaussian:sigma=0.3"])
def test_clicks_against_the_updates_behind_them_are_refused_under_any_noise(
    tmp_path: Path, noise: str
) -> None:
    """Both are truth: what hides the messages does not hide that one of them is wrong."""
    facts = {"noise": noise}
    assert truth_checked(recorded(tmp_path / "right", PLAIN, facts=facts)).reason is not None
    with pytest.raises(TraceError, match=r"truth/messages-00000\.npz follows from other clicks"):
        truth_checked(recorded(tmp_path / "t", PLAIN, shifted, facts=facts))


def test_small_noise_hides_nothing(tmp_path: Path) -> None:
    facts = {"noise": "gaussian:sigma=0.0005"}

    def unknown_updates(rounds: Rounds) -> Rounds:
        return [
            (record, replace(truth, updates=np.full_like(truth.updates, np.nan))) for record, truth in rounds
        ]

    noise = normal_noise(0.0005)
    noised = [
        (replace(record, **noise(record)), truth)
        for record, truth in unknown_updates(foreign_trace.records(PLAIN))
    ]
    header = foreign_trace.header(PLAIN, facts={**facts, "aggregate": "other"})
    assert truth_checked(foreign_trace.write(tmp_path / "right", header, noised)).reason is None
    with pytest.raises(TraceError, match=r"observed/messages-00000\.npz follows from other clicks"):
        truth_checked(foreign_trace.write(tmp_path / "t", header, shifted(noised)))


def test_unknown_clicks_are_left_out(tmp_path: Path) -> None:
    def unknown(rounds: Rounds) -> Rounds:
        moved = shifted(rounds)
        return [
            (record, replace(truth, known=(truth.clicks == right.clicks).all(axis=1)))
            for (record, truth), (_, right) in zip(moved, rounds, strict=True)
        ]

    assert "message" in truth_checked(recorded(tmp_path / "t", PLAIN, unknown)).text


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"events": ["randomised-clicks:eps=1"]}, "clients learn from other clicks"),
        ({"events": ["opaque:mine"]}, "opaque:mine may change clicks"),
        ({"learning_rate": None}, "does not say learning_rate"),
        ({"normaliser": "candidates"}, "over all candidates"),
    ],
)
def test_what_is_not_known_accuses_nobody(tmp_path: Path, facts: dict[str, Any], reason: str) -> None:
    found = truth_checked(recorded(tmp_path / "t", PLAIN, shifted, facts=facts))
    assert reason in found.text


def test_own_client_steps_are_replayed(tmp_path: Path) -> None:
    folder = listwise_trace.write(tmp_path / "t")
    step = fa.numpy_step(listwise_trace.step)

    def found() -> TruthCheck:
        trace = Trace.open(folder)
        return check_truth(trace, Observer(trace.header, None, client_step=step))

    assert found().reason is None
    rewrite(folder, shifted)
    with pytest.raises(TraceError, match="follows from other clicks"):
        found()


# --- Runs -----------------------------------------------------------------------------------------

ATTACK = (*SMALL, "--click-model", "perfect", "--method", "olsr")
REPLAYED = {
    "none": (),
    "clip": ("--defense", "clip:norm=0.1"),
    "float64 updates": ("--rank-with", "global", "--message", "update", "--message-dtype", "float64"),
    "a reversed third": ("--poisoning", "gradient-reversal:share=0.3"),
    "agreed updates": ("--poisoning", "lie:share=0.3"),
    "manipulated features": ("--server", "manipulate", "--pdgd", "pham-2022"),
    "silenced clients": ("--server", "saturate"),
    "own clients": ("--server", "sybils:share=0.5"),
    "clicks": ("--learner", "pdgd"),
}
HIDDEN = {
    "masks": (
        "clip:norm=1.5+skellam:sigma=3,step=0.0001220703125+secure-aggregation:once=false",
        "messages are masked",
    ),
    "noise": ("clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3", "noise of the declared law is larger"),
    "lies": ("click-rr:eps=1", "clients learn from other clicks"),
}


def trained(folder: Path, *options: Any) -> Path:
    done = run("train", *SMALL, "--click-model", "perfect", *options, "--out", folder)
    assert done.code == 0, done.err
    return folder


def attacked(folder: Path) -> Any:
    done = run("attack", "--trace", folder, "--target", "training", "--json")
    assert done.code == 0, done.err
    return [row for row in done.json()["warnings"] if row["code"] == "FA207"]


@pytest.mark.parametrize("name", REPLAYED)
def test_messages_of_a_run_follow_from_their_truth_alone(tmp_path: Path, name: str) -> None:
    folder = trained(tmp_path / "run", *REPLAYED[name])
    assert attacked(folder) == []
    rewrite(folder / "trace", shifted)
    assert "follows from other clicks" in refusal("attack", "--trace", folder, code=3)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_messages_is_said(tmp_path: Path, name: str) -> None:
    chain, reason = HIDDEN[name]
    (row,) = attacked(trained(tmp_path / "run", "--defense", chain))
    assert reason in row["warning"]


def test_online_metrics_are_not_checked(tmp_path: Path) -> None:
    (row,) = attacked(trained(tmp_path / "run", "--learner", "foltr-es"))
    assert "truth not checked: messages of kind es" in row["warning"]


def test_a_gate_refuses_the_truth_of_others(tmp_path: Path) -> None:
    limits, folder = tmp_path / "limits.toml", tmp_path / "run"
    limits.write_text("max_attack_auc = 0.9999\n")
    assert run("attack", *ATTACK, "--out", folder).code == 0
    assert "FA207" not in run("check", limits, "--trace", folder).err
    for header in list(folder.rglob("trace.toml")):
        rewrite(header.parent, shifted)
    line = refusal("check", limits, "--trace", folder, code=3)
    assert "follows from other clicks" in line
    assert "truth/clicks-00000.npz" in line


def test_a_gate_does_not_judge_messages_that_no_clicks_explain(tmp_path: Path) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text("max_attack_auc = 0.9999\n")
    folder = recorded(tmp_path / "t", PLAIN, facts={"learning_rate": 0.2, "defense": ["none"]})
    done = run("check", limits, "--trace", folder, "--json")
    (outcome,) = done.json()["outcomes"]
    assert outcome["status"] == "not judged"
    assert "a fact or the truth may be wrong" in outcome["missing"]


MANY = System(clients=30, rounds=2, shares=None)
CLIPPED = replace(MANY, update_clip=0.02)
CANDIDATES = replace(MANY, normaliser="candidates")


def trace_in(folder: Path, system: System, facts: dict[str, Any] | None = None, **formats: Any) -> Trace:
    return Trace.open(trace_of(folder, system, facts, **formats))


def exact(folder: Path, method: str = "map") -> float:
    """Share of lists whose clicks one method reads without an error."""
    found = {row["method"]: row.number("exact") for row in fa.attack_trace(folder, method).results}
    return found[method]


def told(folder: Path, *methods: str) -> str:
    """What an attack prints, in one line."""
    options = [word for method in methods for word in ("--method", method)]
    done = run("attack", "--full", "--trace", folder, *options)
    assert done.code == 0
    return " ".join(done.out.split())


# --- a clip of the update -------------------------------------------------------------------------


def test_clipped_updates_are_read(tmp_path: Path) -> None:
    trace = trace_in(tmp_path / "right", CLIPPED)
    assert exact(tmp_path / "right") == 1.0
    found = check_facts(trace, Observer(trace.header, None))
    assert (found.state, found.explained) == ("explained", 1.0)
    trace_of(tmp_path / "wrong", CLIPPED, facts={"update_clip_norm": None})
    assert exact(tmp_path / "wrong") < 0.5


def test_the_likelihood_of_each_pattern_is_that_of_its_clipped_update(tmp_path: Path) -> None:
    """Against the update of each pattern, step by step, scaled by hand."""
    facts = {"noise": "gaussian:sigma=0.01"}
    trace = trace_in(tmp_path / "t", CLIPPED, facts=facts)
    record = next(trace.rounds())
    [seen] = Observer(trace.header, None).views(record)
    decoder, messages = PatternDecoder(seen.view), np.arange(5)
    found = decoder.likelihoods(messages, 0, np.array(seen.view.parameters[messages]))
    for message in messages:
        for pattern in (0, 1, 6, 17):
            clicks = (pattern >> np.arange(K) & 1 == 1)[np.newaxis]
            start = seen.view.parameters[[message]]
            update = decoder.replay.step(start, np.array([message]), 0, clicks)[0] - start[0]
            update = update * min(1.0, 0.02 / max(float(np.linalg.norm(update)), 1e-300))
            left = seen.view.updates[message] - update
            by_hand = -((left / 0.01) ** 2).sum() / 2 - left.size * np.log(0.01 * np.sqrt(2 * np.pi))
            assert found[message, pattern] == pytest.approx(by_hand, rel=1e-3, abs=0.05)


def test_a_clip_of_several_lists_together_is_refused_with_the_reason(tmp_path: Path) -> None:
    trace_of(tmp_path / "t", replace(CLIPPED, lists=2))
    said = told(tmp_path / "t", "olsr", "joint-map")
    assert "joint-map: cannot run: fact update_clip_norm: the clip of a whole update" in said


# --- candidates -----------------------------------------------------------------------------------


def test_embedded_candidates_take_the_place_of_the_data(tmp_path: Path) -> None:
    trace = trace_in(tmp_path / "with", CANDIDATES, candidates=True)
    assert exact(tmp_path / "with") == 1.0
    found = check_facts(trace, Observer(trace.header, None))
    assert (found.state, found.explained) == ("explained", 1.0)
    trace_of(tmp_path / "without", CANDIDATES)
    said = told(tmp_path / "without", "olsr", "map")
    assert "map: cannot run: the observer does not know: candidates" in said


def test_a_round_keeps_the_candidates_of_chosen_messages(tmp_path: Path) -> None:
    trace = trace_in(tmp_path / "t", CANDIDATES, candidates=True)
    record = next(trace.rounds())
    chosen, rows = with_messages(record, np.array([7, 3]))
    assert rows.tolist() == [7, 3]
    parts = np.split(np.asarray(record.candidates), np.cumsum(there(record.n_candidates))[:-1])
    assert np.array_equal(np.asarray(chosen.candidates), np.concatenate([parts[7], parts[3]]))
    assert np.array_equal(chosen.messages, record.messages[[7, 3]])


# --- facts by round -------------------------------------------------------------------------------


def test_facts_of_a_round_hold_in_it(tmp_path: Path) -> None:
    """The step size decays; the header has that of the first round."""
    slow = replace(MANY, learning_rate=0.05)
    early, late = foreign_trace.records(MANY)[0], foreign_trace.records(slow)[1]
    header = foreign_trace.header(MANY, facts={"aggregate": "other"})
    for name, facts in (("told", {"learning_rate": 0.05}), ("untold", {})):
        rounds = [early, (replace(late[0], facts=facts), late[1])]
        foreign_trace.write(tmp_path / name, header, rounds)
    assert exact(tmp_path / "told") == 1.0
    assert exact(tmp_path / "untold") < 0.75


# --- unknown truth --------------------------------------------------------------------------------


def test_lists_of_unknown_clicks_are_left_out_of_scores(tmp_path: Path) -> None:
    """Half of the clients do not consent: what stands in their rows changes nothing."""
    known = np.arange(30) % 2 == 0
    found = []
    for name, clicks in (("zeros", False), ("ones", True)):
        rounds = []
        for record, truth in foreign_trace.records(MANY):
            said = np.where(known[:, np.newaxis], truth.clicks, clicks & (record.shown >= 0))
            rounds.append((record, fa.RoundTruth(clients=truth.clients, clicks=said, known=known)))
        foreign_trace.write(tmp_path / name, foreign_trace.header(MANY), rounds)
        report = fa.attack_trace(tmp_path / name, ["olsr", "map"])
        found.append({row["method"]: row for row in report.results})
    assert repr(found[0]) == repr(found[1])  # NaN equals NaN here
    row = found[0]["map"]
    assert (row["unknown"], row["lists"] + row["skipped"]) == (30, 30)
    assert row.number("exact") == 1.0
    printed = told(tmp_path / "ones", "map")
    assert "30 whose clicks are not known left out" in printed
    assert "of the steps clipped" not in printed


# --- who knows what -------------------------------------------------------------------------------


def test_reports_say_which_lists_the_server_does_not_have(tmp_path: Path) -> None:
    for known, said in (("auditor", True), ("server", False), (None, False)):
        trace_of(tmp_path / str(known), MANY, facts={"lists_known": known})
        warnings = [row["warning"] for row in fa.attack_trace(tmp_path / str(known), "olsr").warnings]
        assert any("which this server does not have" in text for text in warnings) == said


def test_an_unknown_aggregate_keeps_no_attack_from_its_work(tmp_path: Path) -> None:
    played = foreign_trace.records(MANY)
    rounds = [(replace(record, aggregate=record.aggregate * np.nan), truth) for record, truth in played]
    foreign_trace.write(tmp_path / "t", foreign_trace.header(MANY), rounds)
    assert exact(tmp_path / "t", "lad") > 0.9
    done = run("trace", "lint", tmp_path / "t")
    assert done.code in (0, 1)
    assert "declared facts explain 100 % of" in run("trace", "check-facts", tmp_path / "t").out
