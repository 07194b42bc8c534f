"""The chain of defenses: order of stages, the average, what is claimed, and stages that are none."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.defenses.clip import Clip

from foltr_audit.core.defense_chain import DefenseChain, parse_chain, published_chain
from foltr_audit.core.plugins import Defense, ModelLearner, PrivacyClaim, RoundContext, WireMessages, plain
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.privacy.accounting import AccountingContext, SumMembers, upper_bound
from foltr_audit.privacy.events import OpaqueChange
from foltr_audit.privacy.noise import Gaussian
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.simulation.training import weighted_mean
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.tiny import (
    FEATURES,
    Entry,
    ToyAggregate,
    ToyClick,
    ToyMessage,
    ToyMetric,
    ToyStep,
    ToyWire,
    context,
)


def arrived(messages: Floats, survivors: Bools | None = None) -> WireMessages:
    """Plain messages of which all, or some, arrived."""
    everybody = np.ones(len(messages), dtype=np.bool_)
    return WireMessages(messages=messages, survivors=everybody if survivors is None else survivors)


# --- the round in which they act ------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"prefix": "link/", "sums_only": True},
        {"clients": np.array([3, 1], dtype=np.int32), "counts": [2, 2]},
        {"parameters": np.arange(FEATURES), "received": None, "contrast": [True, False]},
    ],
)
def test_a_changed_context_is_what_making_it_anew_gives(changes: dict[str, Any]) -> None:
    before = context([4, 7])
    made, anew = before.having(**changes), replace(before, **changes)
    for one in fields(RoundContext):
        mine, theirs = getattr(made, one.name), getattr(anew, one.name)
        np.testing.assert_array_equal(mine, theirs)
        if isinstance(theirs, np.ndarray):
            assert mine.dtype == theirs.dtype
            assert not mine.flags.writeable
    with pytest.raises(TypeError, match="no pelicans"):
        before.having(pelicans=2)


# --- order ----------------------------------------------------------------------------------------


def test_stages_act_in_their_order_whatever_the_order_of_the_chain(
    setup_of: SetupOf, journal: list[Entry]
) -> None:
    chain = (ToyAggregate(), ToyWire(), ToyMessage(), ToyStep(), ToyClick())
    setup = setup_of(learner="fpdgd:interactions=2", rounds=1, chain=chain)
    Federation(setup).play(np.zeros(FEATURES), 0)
    stages = [entry.stage for entry in journal]
    assert stages == ["click", "step", "click", "step", "message", "wire", "aggregate"]
    assert tuple(dict.fromkeys(stages)) == tuple(stage for stage in STAGES if stage != "metric")


def test_metrics_are_changed_after_the_clicks(setup_of: SetupOf, journal: list[Entry]) -> None:
    setup = setup_of(learner="foltr-es:interactions=2", rounds=1, chain=(ToyMetric(), ToyClick()))
    record, truth = Federation(setup).play(np.zeros(FEATURES), 0).recorded()
    stages = [entry.stage for entry in journal]
    assert stages == ["click", "click", "metric", "metric"]
    assert STAGES.index("click") < STAGES.index("metric") < STAGES.index("step")
    saw = np.stack([entry.saw for entry in journal if entry.stage == "metric"], axis=1)
    values = np.append(0.0, 1 / np.arange(1, 11))
    np.testing.assert_array_equal(record.messages, values[10 - saw.astype(np.int64)])
    assert not np.array_equal(record.messages, truth.updates)


def test_an_outcome_that_is_none_is_refused(setup_of: SetupOf) -> None:
    setup = setup_of(learner="foltr-es:interactions=2", rounds=1, chain=(ToyMetric(highest=100),))
    with pytest.raises(PluginError, match=r"defense toy-metric: on_metric gave an outcome outside 0\.\.10"):
        Federation(setup).play(np.zeros(FEATURES), 0)


def test_each_stage_sees_what_the_one_before_made(setup_of: SetupOf, journal: list[Entry]) -> None:
    chain = (
        ToyMessage(factor=3.0, shift=1.0),
        ToyStep(factor=0.5, shift=2.0),
        ToyWire(shift=5.0, lost_below=2),
        ToyAggregate(factor=-1.0),
    )
    setup = setup_of(learner="fpdgd:interactions=1", rounds=1, chain=chain, clients=6)
    record, truth = Federation(setup).play(np.linspace(0.0, 1.0, FEATURES), 0).recorded()
    saw = {entry.stage: entry.saw for entry in journal}
    np.testing.assert_allclose(saw["step"], record.parameters + truth.updates, rtol=0, atol=1e-15)
    assert np.array_equal(saw["message"], saw["step"] * 0.5 + 2.0)
    assert np.array_equal(saw["wire"], saw["message"] * 3.0 + 1.0)
    assert np.array_equal(record.messages, saw["wire"] + 5.0)
    assert np.array_equal(saw["aggregate"], record.messages[2:])
    assert record.survivors.tolist() == [False, False, True, True, True, True]
    np.testing.assert_allclose(record.aggregate, -record.messages[2:].mean(axis=0), rtol=1e-14)


@pytest.mark.parametrize("make", [ToyStep, ToyMessage])
def test_links_of_a_stage_act_in_the_order_given(make: type[ToyStep] | type[ToyMessage]) -> None:
    double, add = make(tag="double", factor=2.0), make(tag="add", shift=1.0)
    models, here = np.array([[1.0, -2.0], [0.25, 4.0]]), context([0, 1], P=2)

    def through(*links: ToyStep | ToyMessage) -> np.ndarray:
        chain = DefenseChain(links)
        acts = np.ones(2, dtype=np.bool_)
        return chain.on_step(models, acts, 0, here)[0] if make is ToyStep else chain.on_message(models, here)

    assert np.array_equal(through(double, add), 2 * models + 1)
    assert np.array_equal(through(add, double), 2 * (models + 1))


def test_links_of_the_click_wire_and_aggregate_stages_act_in_the_order_given() -> None:
    clicks = np.array([[True, False, True, False]])
    shown = np.array([[4, 2, 0, -1]])
    first, invert = ToyClick(do="keep-first"), ToyClick(do="invert")
    here = context([5], P=2)
    for links, left in (((first, invert), [0, 1, 1, 0]), ((invert, first), [0, 1, 0, 0])):
        assert DefenseChain(links).on_clicks(clicks, shown, 0, here).tolist() == [[*map(bool, left)]]
    lossy = DefenseChain((ToyWire(shift=1.0, lost_below=9), ToyWire(shift=1.0)))
    wired = lossy.on_wire(np.zeros((1, 2)), here)
    assert wired.messages.tolist() == [[2.0, 2.0]]
    assert wired.survivors.tolist() == [False], "what one link lost stays lost"
    double, add = ToyAggregate(factor=2.0), ToyAggregate(shift=1.0)
    sent = arrived(np.full((1, 2), 3.0))
    for pair, expected in (((double, add), 7.0), ((add, double), 8.0)):
        average = DefenseChain(pair).on_aggregate(np.full(2, 3.0), sent, np.ones(1), here)
        assert average.tolist() == [expected] * 2


def test_the_step_stage_acts_only_where_it_is_asked_to() -> None:
    models = np.array([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4]])
    chain = DefenseChain((Clip(norm=1.0),))
    after, clipped = chain.on_step(models, np.array([True, False, True]), 0, context([0, 1, 2], P=2))
    np.testing.assert_allclose(after, [[0.6, 0.8], [3.0, 4.0], [0.3, 0.4]], rtol=1e-15)
    assert clipped.tolist() == [True, False, False]


def test_a_model_on_the_ball_is_not_clipped_by_the_last_bit_of_its_norm() -> None:
    """Sums in another order differ there: 77.0 % of the steps were clipped here, 75.8 % elsewhere."""
    rng = np.random.default_rng(1)
    models = rng.normal(size=(500, 46))
    models /= np.linalg.norm(models, axis=1, keepdims=True)
    every = np.ones(500, dtype=np.bool_)
    here = context(range(500), P=46)
    for factor, expected in ((1.0, False), (1.0 + 1e-12, False), (1.0 + 1e-6, True)):
        for norm in np.linspace(1.0 - 2e-16, 1.0 + 2e-16, 3):
            _, clipped = DefenseChain((Clip(norm=float(norm)),)).on_step(factor * models, every, 0, here)
            assert clipped.tolist() == [expected] * 500


# --- FedAvg ---------------------------------------------------------------------------------------


def test_the_average_weighs_messages_by_their_interactions() -> None:
    messages = np.array([[1.0, -8.0], [2.5, 4.0], [7.0, 0.125], [-3.0, 1e3]])
    counts = [1, 3, 4, 2]
    average = weighted_mean(arrived(messages), np.array(counts))[0]
    pairs = [zip(counts, column, strict=True) for column in messages.T]
    by_hand = [float(sum(n * Fraction(x) for n, x in each) / 10) for each in pairs]
    np.testing.assert_allclose(average, by_hand, rtol=1e-15)


def test_what_did_not_arrive_does_not_count() -> None:
    messages = np.array([[1.0], [1e300], [4.0]])
    there = np.array([True, False, True])
    average = weighted_mean(arrived(messages, there), np.array([1, 7, 2]))[0]
    assert average.tolist() == [3.0]
    without = weighted_mean(arrived(messages[there]), np.array([1, 2]))[0]
    assert average.tobytes() == without.tobytes()


@pytest.mark.parametrize("counts", [[4, 4], [0, 0]])
def test_a_round_in_which_nothing_arrives_keeps_the_model(counts: list[int], setup_of: SetupOf) -> None:
    lost = np.zeros(2, dtype=np.bool_) if any(counts) else np.ones(2, dtype=np.bool_)
    average = weighted_mean(arrived(np.ones((2, 3)), lost), np.array(counts))[0]
    assert np.isnan(average).all()
    for message in ("model", "update"):
        setup = setup_of(chain=(ToyWire(lost_below=100),), message=message, rounds=1)
        start = np.linspace(1.0, 2.0, FEATURES)
        record, truth = Federation(setup).play(start, 0).recorded()
        assert not record.survivors.any()
        assert np.array_equal(record.aggregate, start)
        assert np.isfinite(truth.metrics["offline_ndcg@10"])


# --- claims and texts -----------------------------------------------------------------------------


def test_the_smallest_claim_holds_since_the_rest_is_post_processing() -> None:
    here = context([0])
    assert DefenseChain(()).eps_claimed(here) == math.inf
    assert DefenseChain((ToyMessage(), Clip(norm=1.0))).eps_claimed(here) == math.inf
    assert DefenseChain((ToyMessage(claim=0.5),)).eps_claimed(here) == 0.5
    chain = DefenseChain((ToyMessage(claim=0.5), Clip(norm=1.0), ToyMessage(claim=2.0)))
    assert chain.eps_claimed(here) == 0.5


def test_a_chain_claims_what_is_said_of_the_largest_unit() -> None:
    """It was the smallest epsilon of any link, here that of one click."""
    here = context([0])
    noise = ("clip:norm=1.5", "gaussian:eps=10,delta=0.00001,sensitivity=3")
    for texts in (("click-rr:eps=0.1", *noise), (*noise, "gaussian:eps=12,delta=0.00001,sensitivity=3")):
        assert DefenseChain(parse_chain(texts)).eps_claimed(here) == 10.0
    assert DefenseChain(parse_chain(["click-rr:eps=0.1"])).eps_claimed(here) == 0.1


def test_two_equal_links_draw_from_streams_of_their_own() -> None:
    here, zeros = context(range(200), P=40), np.zeros((200, 40))
    noise = parse_chain(("gamma-laplace:eps=1,sensitivity=1",))
    one = DefenseChain(noise).on_message(zeros, here)
    both = DefenseChain(noise * 2).on_message(zeros, here)
    assert not np.array_equal(both, 2 * one)
    assert np.array_equal(both != one, both - one != 0)
    share = 2 / here.shares
    assert both.var() == pytest.approx(2 * share, rel=0.5), "variances add, 2 s^2 / n each"


def test_a_link_that_gives_back_another_shape_is_named() -> None:
    class Cutting(Defense):
        name: ClassVar[str] = "toy-cutting"

        def on_message(self, models: Floats, context: RoundContext) -> Floats:
            return models[:, :-1]

    with pytest.raises(PluginError, match=r"toy-cutting: .* shape \(3, 3\); expected \(3, 4\)"):
        DefenseChain((Cutting(),)).on_message(np.ones((3, 4)), context(range(3), P=4))


def test_noise_is_described_in_order() -> None:
    here = context([0], shares=7)
    assert DefenseChain((Clip(norm=1.0), ToyMessage())).noise(here) is None
    first, last = ToyMessage(tag="a", claim=1.0), ToyMessage(tag="b", claim=3)
    chain = DefenseChain((first, *published_chain(1.5), last))
    assert chain.noise(here) == "gaussian:sigma=1+gamma-share:n=7,scale=2+gaussian:sigma=3"


@pytest.mark.parametrize(
    ("eps", "sensitivity", "expected"),
    [
        (1.2, 3.0, ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3")),
        (4.5, 5.0, ("clip:norm=2.5", "gamma-laplace:eps=4.5,sensitivity=5")),
        (10, 1, ("clip:norm=0.5", "gamma-laplace:eps=10,sensitivity=1")),
        (math.inf, 3.0, ("none",)),
    ],
)
def test_the_published_chain(eps: float, sensitivity: float, expected: tuple[str, ...]) -> None:
    chain = DefenseChain(published_chain(eps, sensitivity))
    assert chain.texts == expected
    assert parse_chain(chain.texts if chain.defenses else ()) == chain.defenses
    if not math.isinf(eps):
        noise = chain.noise(context([0], shares=9))
        assert noise == f"gamma-share:n=9,scale={plain(sensitivity / eps)}"


def test_fpdgd_pairs_sensitivities_and_epsilons_as_its_authors_do() -> None:
    pairs = {0.1: 3, 1.2: 3, 2.3: 3, 4.4: 3, 4.5: 5, 10: 5, 99: 5}
    for eps, sensitivity in pairs.items():
        assert FPDGD().published_sensitivity(eps) == sensitivity
        assert published_chain(eps) == published_chain(eps, sensitivity)


def test_each_learner_has_a_published_chain_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert published_chain(1.2, learner="foltr-es") == parse_chain(["metric-rr:eps=1.2"])
    with pytest.raises(UsageError, match=r"^eps: learner pdgd has no published .*"):
        published_chain(1.2, learner="pdgd")
    texts = ("clip:norm=1+laplace:eps=2,sensitivity=2",)  # a plug-in may name its defenses
    monkeypatch.setattr(FPDGD, "published_chain", lambda *_: texts)
    assert published_chain(2.0) == parse_chain(texts)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        *(
            ((eps, None), f"eps: {eps:g}; expected a number above 0")
            for eps in (0.0, -1.0, math.nan, -math.inf)
        ),
        *(
            ((1.2, wrong), f"sensitivity: {wrong:g}; expected a finite number")
            for wrong in (0.0, -3.0, math.nan, math.inf)
        ),
    ],
)
def test_the_published_chain_refuses(given: tuple[float, float | None], problem: str) -> None:
    with pytest.raises(UsageError, match=f"^{problem}"):
        published_chain(*given)


def test_chain_texts() -> None:
    joined = parse_chain(["clip:norm=3+gamma-laplace:sensitivity=3,eps=1.20"])
    apart = parse_chain([" clip : norm = 3.0 ", "gamma-laplace:eps=1.2,sensitivity=3"])
    assert joined == apart
    assert DefenseChain(joined).texts == ("clip:norm=3", "gamma-laplace:eps=1.2,sensitivity=3")
    assert DefenseChain(parse_chain(["none+clip:norm=3+none"])).texts == ("clip:norm=3",)
    assert DefenseChain(parse_chain(["none", "none"])).texts == DefenseChain(()).texts == ("none",)
    assert [defense.name for defense in parse_chain(["clip:norm=1+clip:norm=2"])] == ["clip", "clip"]


# --- the clip -------------------------------------------------------------------------------------


def clipped(models: np.ndarray, norm: float) -> np.ndarray:
    """Models (C, P) through the clip."""
    return Clip(norm=norm).on_step(models, context(range(models.shape[0]), P=models.shape[1]))


def test_a_defense_that_only_claims_is_refused() -> None:
    with pytest.raises(PluginError, match="defense toy-idle: it declares noise or a claim but does nothing"):

        class _Idle(Defense):
            name: ClassVar[str] = "toy-idle"

            def claims(self, context: RoundContext) -> tuple[PrivacyClaim, ...]:
                return self.claims_for(["individual"], "client", 1.0)


class _SignTwice(Defense):
    """Sends signs, and does something at the server too; it states no events."""

    name: ClassVar[str] = "toy-sign-twice"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return np.sign(models)

    def on_aggregate(self, aggregate: Floats, *given: object) -> Floats:
        return aggregate.copy()


class _LateScale(Defense):
    """Scales models after every step, and adds noise to the message."""

    name: ClassVar[str] = "toy-late-scale"

    def on_step(self, models: Floats, context: RoundContext) -> Floats:
        return models * 1000

    def law(self, context: RoundContext) -> Gaussian:
        return Gaussian(sigma=1.0)

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models + 1.0


@pytest.mark.parametrize("link", [_SignTwice(), _LateScale()])
def test_a_defense_of_several_stages_is_an_unknown_change_in_each(link: Defense) -> None:
    acts = DefenseChain((link,)).acts(context([0], P=2))
    assert [event for _, event in acts] == [OpaqueChange(mechanism=link.name)] * 2


def test_an_unknown_change_before_a_secure_sum_is_no_change_of_the_sum() -> None:
    """Noise of shares proves nothing of a sum whose messages were changed after it."""
    texts = ["clip:norm=1+skellam:sigma=1,step=0.0009765625", "secure-aggregation"]
    first, last = (parse_chain([text]) for text in texts)
    situation = AccountingContext(
        view="aggregate", unit="interaction", parameters=4, members=SumMembers(cohort=100), delta=1e-5
    )
    here = context([0], P=4, shares=100)
    proven = upper_bound(DefenseChain((*first, *last)).events(here), situation).epsilon
    changed = upper_bound(DefenseChain((*first, _SignTwice(), *last)).events(here), situation).epsilon
    assert changed > 2 * proven


def test_stages_that_are_none_are_refused() -> None:
    class _Odd(ToyMessage):
        @property
        def stages(self) -> Any:
            return "message"

    said = "defense toy-message: stages gave 'message'; expected a tuple out of"
    with pytest.raises(PluginError, match=said):
        DefenseChain((_Odd(),)).links("message")


def test_code_of_a_mixin_is_not_skipped_by_the_compiled_loop() -> None:
    class _Noisy(Defense):
        def on_step(self, models: Floats, context: RoundContext) -> Floats:
            return models + 1.0

    with pytest.raises(PluginError, match="defense clip: on_step and ball come from different classes"):

        class _Both(_Noisy, Clip):
            pass


def test_code_of_a_mixin_is_no_compiled_step() -> None:
    class _Own(ModelLearner):
        def local_step(self, parameters: Floats, *given: Any) -> Any:
            return parameters, np.zeros(len(parameters), dtype=np.bool_)

    with pytest.raises(PluginError, match="learner fpdgd: local_step and compiled_step come from different"):

        class _Both(_Own, FPDGD):
            pass
