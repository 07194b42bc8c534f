"""Noise of other clients that is drawn by its law has the distribution of clients that are played."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from foltr_audit.auditing.audit import Audit
from foltr_audit.auditing.declarations import check_sums
from foltr_audit.auditing.session import AuditSession
from foltr_audit.core.plugins import RoundContext
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.audits import ToyClip, ToyLaplace
from tests.fixtures.tiny import FEATURES

CLIENTS, TRIALS = 12, 1500
MODEL = np.linspace(-0.3, 0.3, FEATURES)
CHAINS = {
    "gamma-laplace": ("clip:norm=1.5", "gamma-laplace:eps=1,sensitivity=3"),
    "laplace": ("clip:norm=1.5,ord=1", "laplace:eps=1,sensitivity=3"),
    "gaussian-shares": ("clip:norm=1.5", "gaussian-shares:sigma=2"),
    "skellam": ("clip:norm=1.5", "skellam:sigma=3,step=0.0625"),
    "skellam, secure sums": ("clip:norm=1.5", "skellam:sigma=3,step=0.0625", "secure-aggregation"),
    "discrete-gaussian": ("clip:norm=1.5", "discrete-gaussian:sigma=3,step=0.0625"),
}


def session_of(setup: Setup, trials: int = TRIALS) -> AuditSession:
    protocol = AuditSpec(trials=trials, views=("aggregate",))
    return Audit(setup, protocol).session([MODEL])


def declared_law(session: AuditSession) -> AdditiveNoise:
    law = session.noise_of(1).law
    assert law is not None
    return law


def same_distribution(one: Floats, other: Floats) -> float:
    """The p-value of a two-sample test on all numbers, which are independent."""
    return float(ks_2samp(one.ravel(), other.ravel()).pvalue)


@pytest.mark.parametrize("name", CHAINS)
def test_a_drawn_sum_has_the_distribution_of_played_clients(name: str, setup_of: SetupOf) -> None:
    """And another number of clients has not, so the test can fail."""
    session, trials = session_of(setup_of(defense=CHAINS[name], clients=CLIENTS)), np.arange(TRIALS)
    others, law = session.games.others, declared_law(session)
    played = others.sums(CLIENTS, 0, trials, played=True)
    others.follow(CLIENTS, law.summed(CLIENTS - 1))
    drawn = others.sums(CLIENTS, 0, trials)
    assert same_distribution(played, drawn) > 1e-4
    others.follow(CLIENTS, law.summed(CLIENTS // 2))
    assert same_distribution(played, others.sums(CLIENTS, 0, trials)) < 1e-6


@pytest.mark.parametrize("name", CHAINS)
def test_trials_rounds_and_sums_have_draws_of_their_own(name: str, setup_of: SetupOf) -> None:
    session = session_of(setup_of(defense=CHAINS[name], clients=CLIENTS))
    others, law = session.games.others, declared_law(session)
    for members in (CLIENTS, CLIENTS - 1):
        others.follow(members, law.summed(members - 1))
    drawn = others.sums(CLIENTS, 0, np.arange(TRIALS))
    assert drawn.std() > 0
    every = [
        drawn,
        others.sums(CLIENTS, 1, np.arange(TRIALS)),
        others.sums(CLIENTS - 1, 0, np.arange(TRIALS)),
    ]
    pairs = [(0, 1), (0, 2), (1, 2)]
    correlations = [np.corrcoef(every[i].ravel(), every[j].ravel())[0, 1] for i, j in pairs]
    correlations.append(np.corrcoef(drawn[::2].ravel(), drawn[1::2].ravel())[0, 1])
    assert np.abs(correlations).max() < 5 / np.sqrt(drawn[::2].size)
    # A trial is the same whichever others are asked for.
    assert np.array_equal(others.sums(CLIENTS, 0, np.array([7, 3])), drawn[[7, 3]])


def test_a_sum_follows_its_law_only_where_a_test_has_shown_it(setup_of: SetupOf) -> None:
    chain = (ToyClip(), ToyLaplace())
    honest = session_of(setup_of(chain=chain, clients=CLIENTS), 300)
    assert check_sums(honest, CLIENTS).law == declared_law(honest).summed(CLIENTS - 1)
    alike = session_of(setup_of(chain=(ToyClip(), Alike()), clients=CLIENTS), 300)
    tested = check_sums(alike, CLIENTS)
    assert tested.law is None
    assert tested.failed is not None
    audit = Audit(
        setup_of(chain=(ToyClip(), Alike()), clients=CLIENTS), AuditSpec(trials=300, views=("aggregate",))
    )
    (found,) = audit.findings({"trained": (MODEL,)})
    assert found.declared == "broken"


class Alike(ToyLaplace):
    """Noise that is as declared in a message, and the same for every client of a round."""

    name = "toy-alike"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models + self.law(context).sample(context.streams("noise"), models.shape[1])[:1]
