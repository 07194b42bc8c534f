"""Whole rounds of training follow the law of the game, and accounting counts no noise that they lack."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from foltr_audit.auditing.played_rounds import PlayedRounds, PlayedTrial, difference, played_bound
from foltr_audit.auditing.session import AuditSession
from foltr_audit.auditing.verdict import CONTRADICTION, STRICT
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext, WireMessages
from foltr_audit.core.plugins.defense import Stage
from foltr_audit.simulation.client_population import MaliciousClients
from foltr_audit.simulation.privacy_description import PrivacyDescription
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import CLIENT, ToyClip, ToyLaplace, findings, session
from tests.fixtures.command import answer, run

VIEWS = ("individual", "aggregate", "colluding")
CLIENTS, ROUNDS = 12, 5
CLIP = "clip:norm=1.5,ord=1,of=update,at=message"
SKELLAM = "clip:norm=1.5,of=update,at=message+skellam:sigma=3,step=0.0009765625+secure-aggregation"
CHAINS = {
    "shares": f"{CLIP}+gamma-laplace:eps=1.2,sensitivity=3",
    "whole draws, guard": f"{CLIP}+laplace:eps=1.2,sensitivity=3+guard",
    "masks": f"{SKELLAM}:once=false",
    "masks, drop-outs": f"{SKELLAM}:drop_before=0.1,drop_after=0.2,threshold=0.4",
    "bound masks": f"{SKELLAM}:bind=true",
    "no masks, drop-outs": f"{SKELLAM}:masks=false,drop_after=0.3,threshold=2",
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "honest": {},
    "saturate": {"server": "saturate"},
    "flatten": {"server": "flatten"},
    "sybils": {"server": "sybils:share=.5"},
    "replay": {"server": "replay"},
    "differencing": {"server": "differencing"},
    "reversal": {"poisoning": "gradient-reversal:share=0.5"},
    "lie, sybils": {"poisoning": "lie:share=0.3", "server": "sybils:share=.3"},
}


def system(setup_of: SetupOf, chain: str, **made: Any) -> AuditSession:
    setup = setup_of(chain=parse_chain([chain]), clients=CLIENTS, rounds=ROUNDS, message="update", **made)
    return session(setup, **CLIENT | {"views": VIEWS})


def trials_of(played: AuditSession) -> list[PlayedTrial]:
    canary = played.canary(played.protocol.canaries[0], played.protocol.units[0])
    return PlayedRounds(played).play([(played, canary)], VIEWS)


def differences(played: AuditSession, alarm: float = STRICT) -> dict[str, str]:
    trials = trials_of(played)
    return {view: difference(trials, view, played.members(view), alarm) for view in VIEWS}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("chain", CHAINS)
def test_rounds_and_game_agree(chain: str, name: str, setup_of: SetupOf) -> None:
    """In all views, and with no fewer messages with noise than accounting counts."""
    played = system(setup_of, CHAINS[chain], **SYSTEMS[name])
    trials = trials_of(played)
    opens = chain != "bound masks" or name != "saturate"
    assert (len(trials) >= 20) == opens
    for view in VIEWS if opens else ():
        assert difference(trials, view, played.members(view), STRICT) == ""
        least = min(trial.views[view].shares for trial in trials)
        assert least >= played.members(view)
        chance = "masks" in chain or "guard" in chain or "lie" in name or name == "differencing"
        if not chance:
            assert least == played.members(view), "and no more, where nothing is left to chance"


MORE = {
    "clicks": "click-rr:eps=1",
    "nothing random": "clip:norm=1",
    "steps": "clip:norm=1+gaussian:sigma=1+clip:norm=1",
    "noise on sums": "clip:norm=1.5+correlated-gaussian:sigma=2",
    "noise on secure sums": "clip:norm=1.5+correlated-gaussian:sigma=2+secure-aggregation",
    "some coordinates": "gaussian:sigma=0.5+random-k:k=2,rescale=true",
    "largest coordinates": "clip:norm=0.5,at=message+gaussian:sigma=0.5+top-k:k=3",
    "coarse numbers": "clip:norm=1.5+secure-aggregation:fraction=0,bits=32",
    "median": "clip:norm=1.5+gaussian:sigma=1+median",
}


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("message", ["model", "update"])
def test_other_chains_agree_too(name: str, message: str, setup_of: SetupOf) -> None:
    setup = setup_of(chain=parse_chain([MORE[name]]), clients=CLIENTS, rounds=ROUNDS, message=message)
    assert not any(differences(session(setup, views=VIEWS)).values())


class StepNoise(ToyLaplace):
    """Noise in every local step."""

    name = "toy-step-noise"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models

    @property
    def stages(self) -> tuple[Stage, ...]:
        return ("step",)

    def on_step(self, parameters: Floats, context: RoundContext) -> Floats:
        return ToyLaplace().on_message(parameters, context)

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return ToyLaplace().events(context)


def test_noise_of_local_steps_agrees(setup_of: SetupOf) -> None:
    setup = setup_of(chain=(ToyClip(), StepNoise()), clients=CLIENTS, rounds=ROUNDS)
    assert not any(differences(session(setup, views=VIEWS)).values())


def shares(setup_of: SetupOf, **made: Any) -> AuditSession:
    return system(setup_of, CHAINS["shares"], **made)


def test_malicious_clients_that_accounting_forgets_are_found(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivacyDescription, "_silent", lambda *_: (0, ""))
    found = differences(shares(setup_of, poisoning="gradient-reversal:share=0.5"))
    assert "6 messages with noise" in found["aggregate"]
    assert "accounting counts 12" in found["aggregate"]
    assert found["individual"] == ""


def test_a_client_that_sends_no_noise_is_found_whoever_it_is(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round changes honest rows too, which nothing declares."""

    def poisoned(self: MaliciousClients, sent: Floats, honest: Floats, context: RoundContext) -> Floats:
        return np.array(honest)

    monkeypatch.setattr(MaliciousClients, "poisoned", poisoned)
    found = differences(shares(setup_of, poisoning="gradient-reversal:share=0.5"))
    assert "0 messages with noise" in found["individual"]
    assert "0 messages with noise" in found["aggregate"]


class Losing(Defense):
    """Loses every second message, and says that it loses none."""

    name: ClassVar[str] = "toy-losing"

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        there = survivors & (np.arange(survivors.size) % 2 == 0)
        return WireMessages(messages=messages, survivors=there)

    def arriving(self, messages: int, cohort: int, *, alike: bool) -> int:
        return messages

    def events(self, context: RoundContext) -> tuple[PrivacyEvent, ...]:
        return ()


class Doubling(Losing):
    """Sends every message twice as large, and says that it does nothing."""

    name: ClassVar[str] = "toy-doubling"

    def on_wire(self, messages: Floats, survivors: Bools, context: RoundContext) -> WireMessages:
        return WireMessages(messages=2.0 * messages, survivors=survivors)


class Tired(ToyLaplace):
    """Noise as declared, but for half of it in a cohort that is a whole round."""

    name: ClassVar[str] = "toy-tired"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = self.law(context).sample(context.streams("noise"), models.shape[1])
        return models + (0.5 if len(models) == CLIENTS else 1.0) * noise


def toy(setup_of: SetupOf, *chain: Defense) -> AuditSession:
    return session(setup_of(chain=chain, clients=CLIENTS, rounds=ROUNDS), **CLIENT | {"views": VIEWS})


def test_a_lost_message_is_found(setup_of: SetupOf) -> None:
    found = differences(toy(setup_of, ToyClip(), ToyLaplace(), Losing()))
    assert "6 messages with noise" in found["aggregate"]


def test_a_changed_message_is_found(setup_of: SetupOf) -> None:
    found = differences(toy(setup_of, ToyClip(), ToyLaplace(), Doubling()))
    assert "another law" in found["aggregate"]
    assert "another law" in found["individual"]


def test_less_noise_than_its_law_is_found_in_a_round(setup_of: SetupOf) -> None:
    """Where tests have shown the law of sums, the game draws from it."""
    played = toy(setup_of, ToyClip(), Tired())
    assert "another law" in differences(played)["individual"], "the game plays one client, the round all"
    law = played.noise_of(1).law
    assert law is not None
    played.games.others.follow(CLIENTS, law.summed(CLIENTS - 1))
    assert "its noise is larger in" in differences(played)["aggregate"]


def test_what_a_round_shows_is_held_against_the_proof(
    setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise the trials of rounds prove more than 1, at a confidence of one in a million."""
    played = system(setup_of, CLIP)
    trials = trials_of(played)
    bound = played_bound(trials, "aggregate", delta=0.0, confidence=1.0 - STRICT)
    assert 1.0 < bound < 1.2
    with_noise = trials_of(shares(setup_of))
    assert played_bound(with_noise, "aggregate", delta=0.0, confidence=1.0 - STRICT) < 0.5


def test_a_difference_is_a_contradiction(setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivacyDescription, "_silent", lambda *_: (0, ""))
    made: dict[str, Any] = {"clients": CLIENTS, "rounds": ROUNDS, "poisoning": "gradient-reversal:share=0.5"}
    setup = setup_of(chain=parse_chain([f"{CLIP}+gaussian-shares:sigma=2"]), **made)
    (found,) = findings(setup, **CLIENT | {"views": ("aggregate",)})
    assert found.verdict == CONTRADICTION
    assert "6 messages with noise" in found.why
    monkeypatch.undo()
    (found,) = findings(setup_of(chain=setup.chain.defenses, **made), **CLIENT | {"views": ("aggregate",)})
    assert found.verdict != CONTRADICTION


DATA = "--data synthetic:mq2007:30 --clients 20 --rounds 2 --poisoning gradient-reversal:share=0.9"
CHAIN = "--defense clip:norm=1.5,ord=1+gaussian-shares:sigma=8"
V1 = f"audit {DATA} {CHAIN} --view aggregate --unit client --canary message --model first --trials 60"


def test_malicious_clients_hide_nobody() -> None:
    """The proof counts 2 of 20 shares of the noise."""
    (row,) = answer(V1)["results"]
    assert row["eps_upper"] > 2.0
    assert "in the sum of 2 messages" in row["upper_how"]


COMMANDS = {
    "audit": V1,
    "compare": f"compare {DATA} {CHAIN} --runs 1 --jobs 1 --method olsr --click-model perfect --trials 60",
    "check": f"check LIMITS {DATA} {CHAIN} --method olsr --trials 60",
    "check --trace": "check LIMITS --trace RUN --method olsr",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_a_contradiction(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a proof that counts the noise of malicious clients."""
    limits = tmp_path / "limits.toml"
    limits.write_text('max_proven_eps = 9\nmax_ceiling_auc = 0.99\nview = "aggregate"\n')
    if "RUN" in COMMANDS[name]:
        assert run(f"attack {DATA} {CHAIN} --method olsr --out {tmp_path / 'run'}").code == 0
    monkeypatch.setattr(PrivacyDescription, "_silent", lambda *_: (0, ""))
    wrong = run(COMMANDS[name].replace("LIMITS", str(limits)).replace("RUN", str(tmp_path / "run")))
    assert wrong.code == 70, wrong.err
    assert "2 messages with noise" in wrong.err


def test_rounds_are_the_same_in_every_run(setup_of: SetupOf) -> None:
    one, two = (trials_of(shares(setup_of))[3].views["aggregate"] for _ in range(2))
    assert np.array_equal(one.played, two.played)
    assert np.array_equal(one.game, two.game)
    assert not np.array_equal(one.played, one.game)
