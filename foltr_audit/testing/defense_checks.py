"""The contracts of defenses and laws of noise: what hooks return, and that defenses do what they declare."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from foltr_audit.auditing.declarations import LinkTestInput, check_declarations
from foltr_audit.auditing.law_tests import (
    LawTable,
    LawTestResult,
    NoiseDraws,
    check_distribution,
    check_noise,
    failure,
    law_table,
    two_sided,
)
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import Defense, RoundContext, WireMessages
from foltr_audit.core.plugins.answers import claims_of, events_of, law_of
from foltr_audit.core.plugins.defense import HOOKS, STAGES, Stage
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import FoltrAuditError
from foltr_audit.privacy.events import (
    UNITS,
    ClickRandomization,
    CorrelatedNoise,
    MetricRandomization,
    NoiseAddition,
)
from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.testing.contract import (
    CheckList,
    ContractCheck,
    checks_of,
    expect,
    law_checks_of,
    own_generators_only,
    run_checks,
    threads,
)
from foltr_audit.testing.samples import FEATURES, context, generator, tiny_setup
from foltr_audit.utils.arrays import Bools, Floats, Ints

Arrays = tuple[Floats | Ints | Bools, ...]

_CHECKS = CheckList()
_CLIENTS = np.array([11, 4, 7, 0, 23])
_VALUES = np.append(0.0, 1 / np.arange(1, 11))
"""Values of an online metric, MaxRR of lists of ten."""


def defense_checks(defense: Defense | type[Defense] | str) -> list[ContractCheck]:
    """The checks of a defense, each with its name, e.g. for `pytest.mark.parametrize`."""
    return checks_of(Defense, defense, _CHECKS)


def check_defense(defense: Defense | type[Defense] | str) -> None:
    """Check that a defense does what every defense must do, and what it declares; it need not be registered.

    Tests of noise have fixed seeds. With other seeds each check would reject a defense that does as it
    declares with a probability of at most one in a million.

    Raises:
        ContractError: it does not; the error says which checks failed, and why.
    """
    run_checks(defense_checks(defense))


# --- hooks ----------------------------------------------------------------------------------------


def _inputs(stage: Stage, C: int, P: int = FEATURES) -> Arrays:
    """Read-only arrays for a stage; every client has a row in each but an average."""
    rng = generator(5)
    models = 3 * rng.normal(size=(C, P))
    arrays: Arrays = (models,)
    if stage == "click":
        shown = np.where(np.arange(10) < rng.integers(1, 11, size=(C, 1)), np.arange(10), -1)
        arrays = ((rng.random((C, 10)) < 0.4) & (shown >= 0), shown)
    elif stage == "metric":
        arrays = (rng.integers(0, _VALUES.size, size=C),)
    elif stage == "wire":
        arrays = (models, np.arange(C) % 4 != 1)
    elif stage == "aggregate":
        weights = np.arange(1.0, C + 1) / max(1.0, C * (C + 1) / 2)
        arrays = ((models * weights[:, np.newaxis]).sum(axis=0), models, weights)
    for array in arrays:
        array.flags.writeable = False
    return arrays


def _stages(defense: Defense) -> tuple[Stage, ...]:
    """The stages of a defense; of one that does nothing, that of messages."""
    return defense.stages or ("message",)


def _applied(defense: Defense, stage: Stage, arrays: Arrays, round_: RoundContext) -> Arrays:
    """What the hook of a stage makes of arrays, after checks that hold for every stage."""
    before = [array.tobytes() for array in arrays]
    more: tuple[object, ...] = {"click": (0,), "metric": (_VALUES, 0)}.get(stage, ())
    hook = HOOKS[stage]
    out = getattr(defense, hook)(*arrays, *more, round_)
    made: Arrays = (out,)
    encoded = False
    if stage == "wire":
        expect(isinstance(out, WireMessages), f"WireMessages from {hook}", type(out).__name__)
        encoded, made = out.is_encoded, (out.messages, out.survivors)
    unchanged = before == [array.tobytes() for array in arrays]
    expect(unchanged, f"arrays that {hook} leaves as they are", "that it changed one")
    for new, old in zip(made, arrays, strict=False):
        expect(isinstance(new, np.ndarray), f"an array from {hook}", type(new).__name__)
        expect(new.shape == old.shape, f"shape {old.shape} from {hook}", f"shape {new.shape}")
        expect(new.dtype == old.dtype or encoded, f"{old.dtype} from {hook}", f"{new.dtype}")
        shared = bool(defense.stages) and any(np.shares_memory(new, given) for given in arrays)
        expect(not shared, f"a new array from {hook}", "the array that it was given")
    _check_values(stage, made, arrays)
    return made


def _check_values(stage: Stage, made: Arrays, arrays: Arrays) -> None:
    if stage == "click":
        expect(not made[0][arrays[1] < 0].any(), "no click at the padding", "one")
    if stage == "metric":
        inside = (made[0] >= 0) & (made[0] < _VALUES.size)
        expect(inside.all(), f"outcomes from 0 to {_VALUES.size - 1}", "another one")
    if stage == "wire":
        expect(
            not (made[1].astype(np.bool_) & np.logical_not(arrays[1])).any(),
            "that lost messages stay lost",
            "one that comes back",
        )
    if stage in ("step", "message", "aggregate"):
        expect(np.isfinite(np.asarray(made[0], dtype=np.float64)).all(), "finite numbers", "others")


def _rows(made: Arrays, order: Ints | slice) -> list[bytes]:
    """Bytes of the rows of the chosen clients."""
    return [np.ascontiguousarray(array[order]).tobytes() for array in made]


def _everything(made: Arrays) -> list[bytes]:
    return [array.tobytes() for array in made]


@_CHECKS("its stages")
def _stages_fit(defense: Defense) -> None:
    stages = defense.stages
    known = [stage for stage in STAGES if stage in stages]
    expect(list(stages) == known, f"stages of {', '.join(STAGES)}, in this order", repr(stages))
    for stage in stages:
        own = getattr(type(defense), HOOKS[stage]) is not getattr(Defense, HOOKS[stage])
        expect(own, f"a method {HOOKS[stage]} for stage {stage}", "none")


@_CHECKS("same seed, same bytes")
def _same_seed(defense: Defense) -> None:
    for stage in _stages(defense):
        arrays = _inputs(stage, _CLIENTS.size)
        with own_generators_only():
            made = [_everything(_applied(defense, stage, arrays, context(_CLIENTS))) for _ in range(2)]
        wanted = "the same output for the same input, round and seed"
        expect(made[0] == made[1], wanted, f"two outputs of {HOOKS[stage]}")
        with threads(2):
            again = _everything(_applied(defense, stage, arrays, context(_CLIENTS)))
        expect(again == made[0], "the same output on any number of threads", f"another one of {HOOKS[stage]}")


@_CHECKS("a client alone is treated as in its cohort")
def _alone(defense: Defense) -> None:
    for stage in _stages(defense):
        if stage == "wire":
            continue  # it acts on a cohort as a whole
        arrays = _inputs(stage, _CLIENTS.size)
        together = _applied(defense, stage, arrays, context(_CLIENTS))
        if stage == "aggregate":
            order = np.array([3, 1, 4, 0, 2])
            turned = (arrays[0], arrays[1][order], arrays[2][order])
            (other,) = _applied(defense, stage, turned, context(_CLIENTS[order]))
            wanted = "the same output for clients in another order"
            expect(np.allclose(together[0], other, rtol=1e-12), wanted, "another one of on_aggregate")
            continue
        for i in range(_CLIENTS.size):
            row = slice(i, i + 1)
            alone = tuple(array[row].copy() for array in arrays)
            own = _applied(defense, stage, alone, context(_CLIENTS[row]))
            wanted = "the same row for a client alone as in its cohort: n comes from context.shares"
            expect(_everything(own) == _rows(together, row), wanted, f"another one of {HOOKS[stage]}")


@_CHECKS("a secure sum is that of the messages that arrived")
def _secure_sum(defense: Defense) -> None:
    if "wire" not in defense.stages:
        return
    messages, survivors = 3 * generator(5).normal(size=(_CLIENTS.size, FEATURES)), np.arange(5) % 4 != 1
    round_ = context(_CLIENTS)
    wired = defense.on_wire(messages, survivors, round_)
    if wired.sum is None:
        return
    encoding = defense.encoding
    expect(encoding is not None, "an encoding beside encoded messages", "none")
    there = wired.survivors[:, np.newaxis]
    expected = (messages * round_.counts[:, np.newaxis] * there).sum(axis=0)
    off = float(np.abs(wired.sum - expected).max())
    room = 2.0 * _CLIENTS.size * (0.0 if encoding is None else encoding.error)
    wanted = f"the sum of counts times messages, up to a rounding of {room:.3g}"
    expect(off <= room, wanted, f"a sum that is off by {off:.3g}")


@_CHECKS("nobody, and one parameter")
def _smallest(defense: Defense) -> None:
    for stage in _stages(defense):
        _applied(defense, stage, _inputs(stage, 0), context([]))
        _applied(defense, stage, _inputs(stage, _CLIENTS.size, P=1), context(_CLIENTS, P=1))


@_CHECKS("noise depends on shares, not on who is there")
def _shares(defense: Defense) -> None:
    if "message" not in defense.stages:
        return
    for shares in (1, 2, 1000):
        few = _sent(defense, [8, 9], shares)
        many = _sent(defense, range(10), shares)
        wanted = "the same noise for a client, whoever else is there: n comes from context.shares"
        expect(few.tobytes() == many[8:].tobytes(), wanted, "other noise in a larger cohort")
        more = _sent(defense, [8, 9], shares + 1)
        laws = [defense.law(context([8], shares=n)) for n in (shares, shares + 1)]
        equal, alike = more.tobytes() == few.tobytes(), laws[0] == laws[1]
        said = "the same law" if alike else "different laws"
        found = "equal" if equal else "different"
        expect(equal == alike, f"messages that follow {said}, with one more share", f"{found} messages")


def _sent(defense: Defense, clients: Sequence[int], shares: int) -> Floats:
    models = np.zeros((len(clients), FEATURES))
    return defense.on_message(models, context(list(clients), shares=shares))


# --- what it declares ---------------------------------------------------------------------------

_MODEL = np.linspace(-0.3, 0.3, FEATURES)
_DRAWS = 20_000  # metrics for each true outcome


def _round(P: int = FEATURES, clients: int = 1) -> RoundContext:
    return context(np.arange(clients), P=P)


@_CHECKS("its ball is what its on_step does")
def _ball(defense: Defense) -> None:
    ball = defense.ball
    if ball is None:
        return
    for P in (1, FEATURES):
        models = np.geomspace(1e-300, 1e100, 40)[:, np.newaxis] * generator(7).normal(size=(40, P))
        inside = ball.projected(models)
        stepped = defense.on_step(models, _round(P, len(models)))
        wanted = f"models scaled into the L{ball.ord} ball of {ball.norm:g} that `ball` declares"
        expect(stepped.tobytes() == inside.tobytes(), wanted, "other models from on_step")


@_CHECKS("bounds, noise and randomised clicks are as declared")
def _lawful(defense: Defense) -> None:
    """The tests of an audit: distribution and independence, over clients, rounds, local steps and seeds."""
    if not defense.stages or "metric" in defense.stages:
        return
    setup = tiny_setup(defense=(defense.text,), clients=30)
    clients = GameClients(setup, setup.collection.test, _MODEL)
    rng = generator(13)
    far = 50.0 if law_of(defense, _round()) is not None else 1e12  # which no noise hides
    models = np.stack([_MODEL + 0.1, rng.normal(size=FEATURES), far * np.eye(FEATURES)[1]])
    where = ["a client that learns", "a model of size 1", f"a model of size {far:g}"]
    inputs = [
        LinkTestInput.resting("a", clients),
        LinkTestInput(clients=clients, models=models, where=where),
    ]
    found = check_declarations(setup.privacy.acts(), clients, inputs, interactions=2)
    wanted = "what its events and its law declare"
    expect(not found.broken, wanted, found.why)
    expect(not found.not_looked, f"{wanted}, told from its inputs and outputs", found.why)


@_CHECKS("metrics follow the declared channel")
def _channel(defense: Defense) -> None:
    if "metric" not in defense.stages:
        return
    channel = defense.channel(_VALUES.size)
    shape = (_VALUES.size, _VALUES.size)
    expect(channel.shape == shape, f"a channel of shape {shape}", f"shape {channel.shape}")
    sums = channel.sum(axis=1)
    proper = (channel >= 0).all() and np.allclose(sums, 1.0, rtol=0, atol=1e-9)
    expect(proper, "a channel whose rows are probabilities that sum to 1", f"rows that sum to {sums}")
    expect(defense.law_text(_VALUES.size), "a text of its law", "none")
    tests = []
    for truth, chances in enumerate(channel):
        sent = defense.on_metric(np.full(_DRAWS, truth), _VALUES, 0, _round(clients=_DRAWS))
        for outcome, chance in enumerate(chances):
            count = int((sent == outcome).sum())
            found = (
                f"value {outcome} is sent for {truth} {count} times in {_DRAWS}, by the channel {chance:.4g}"
            )
            surprise = two_sided(count, _DRAWS, float(chance)) if chance > 0 else float(count == 0)
            tests.append(LawTestResult(surprise, found))
    why = failure(tests, len(tests))
    expect(why is None, "metrics that follow the declared channel", f"that {why}")
    declared = [e.epsilon for e in events_of(defense, _round()) if isinstance(e, MetricRandomization)]
    for epsilon in declared:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(channel[:, np.newaxis] / channel[np.newaxis])
        largest = float(np.nanmax(ratios))
        wanted = f"the declared epsilon of {epsilon:g} at least"
        expect(largest <= epsilon * (1 + 1e-6) + 1e-9, wanted, f"a channel with epsilon {largest:.4g}")


# --- claims and calibration -----------------------------------------------------------------------


@_CHECKS("claims are complete, and the same in every round")
def _claims(defense: Defense) -> None:
    first = context([11, 4], round_=0)
    for claim in claims_of(defense, first):
        expect(claim.epsilon > 0, "a claimed epsilon above 0", f"{claim.epsilon}")
        expect(0 <= claim.delta < 1, "a claimed delta from 0 to below 1", f"{claim.delta}")
        relations = ("replace-one", "add-remove")
        expect(claim.relation in relations, " or ".join(relations), repr(claim.relation))
        expect(claim.unit in UNITS, f"a unit of {', '.join(UNITS)}", repr(claim.unit))
        expect(claim.view in VIEWS, f"a view of {', '.join(VIEWS)}", repr(claim.view))
    later = context([11, 4], round_=40)
    for what, declared in (("events", events_of), ("claims", claims_of), ("law", law_of)):
        wanted = f"the same {what} in every round"
        expect(declared(defense, first) == declared(defense, later), wanted, "others in a later round")


@_CHECKS("the size of its messages")
def _bits(defense: Defense) -> None:
    for P in (1, FEATURES):
        bits = defense.message_bits(P, 32)
        expect(isfinite(bits) and bits > 0, "a positive number of bits", repr(bits))


@_CHECKS("its noise can be calibrated as it says")
def _calibration(defense: Defense) -> None:
    how, cls = defense.calibrated_by, type(defense)
    if how is None:
        return
    low, high = how.norms
    expect(how.order in (0, 1, 2), "a norm of order 0, 1 or 2 in calibrated_by", repr(how.order))
    expect(0 < low < high, "rising positive norms in calibrated_by", f"{low} and {high}")
    for norm in (low, 1.0, high):
        noise = []
        for number in (0.5, 1.0, 4.0):
            try:
                made = cls.with_noise(number, norm, how.order or 2, FEATURES)
            except (ValueError, FoltrAuditError):
                continue  # a number that it does not accept
            again = make(Defense, made.text)
            expect(again == made, f"with_noise({number}) again from its text {made.text}", again.text)
            noise.append(_amount(made))
        steps = np.diff(noise) < 0 if how.falls else np.diff(noise) > 0
        wanted = f"{'less' if how.falls else 'more'} noise for a larger number, as calibrated_by says"
        expect(len(noise) > 1 and steps.all(), wanted, f"noise of {[f'{one:.3g}' for one in noise]}")


def _amount(defense: Defense) -> float:
    """A number that grows with the noise of a defense."""
    for event in events_of(defense, _round()):
        if isinstance(event, NoiseAddition):
            return float(event.law.variance)
        if isinstance(event, CorrelatedNoise):
            return event.sigma
        if isinstance(event, ClickRandomization | MetricRandomization):
            return 1.0 / event.epsilon
    expect(False, "an event that states its noise", "none")
    return 0.0


# --- laws of noise --------------------------------------------------------------------------------

_LAW_CHECKS = CheckList()
_SAMPLED, _WIDTH = 4096, 6
_NEAR = 1e-2  # relative, of a variance computed from a table
_CLOSE = 1e-4  # of probabilities, and relative of deltas, computed from a density
_FINE = 200  # points in a standard deviation at which a density is summed
_FAR = 40  # standard deviations up to which it is summed


def noise_law_checks(law: AdditiveNoise) -> list[ContractCheck]:
    """The checks of a law of noise, each with its name, e.g. for `pytest.mark.parametrize`."""
    return law_checks_of(law, f"noise law {law.text}", _LAW_CHECKS)


def check_noise_law(law: AdditiveNoise) -> None:
    """Check that a law of noise is one: samples follow its density, and sums of samples the law of sums.

    Tests of samples have fixed seeds. With other seeds each test would reject a right law with a probability
    of at most one in a million.

    Raises:
        ContractError: it is not; the error says which checks failed, and why.
    """
    run_checks(noise_law_checks(law))


def _streams(first: int = 0, count: int = _SAMPLED, seed: int = 1) -> ClientStreams:
    return Streams(seed).clients("law", 0, np.arange(first, first + count))


def _table(law: AdditiveNoise) -> LawTable:
    table = law_table(law)
    expect(table is not None, "a density that integrates to 1", "one that integrates to more")
    return table or LawTable(np.zeros(1), np.ones(1), 1.0, 0.0)


def _why(noise: Floats, law: AdditiveNoise, *, whole: bool) -> str | None:
    check = check_noise if whole else check_distribution
    tests = list(check(NoiseDraws(noise, "of this law"), law, _table(law)))
    return failure(tests, len(tests))


@_LAW_CHECKS("its density")
def _density(law: AdditiveNoise) -> None:
    expect(
        law.scale > 0 and law.variance > 0, "a positive scale and variance", f"{law.scale}, {law.variance}"
    )
    x = law.scale * np.concatenate([[0.0], np.geomspace(1e-200, 1e200, 401)])
    step = law.grid
    x = np.append(x[x < 1e6 * law.scale], [1e300]) if step == 0 else step * np.arange(50.0)
    density = law.log_density(x)
    expect(np.isfinite(density).all(), "a finite log density for every finite number", "others")
    same = np.array_equal(density, law.log_density(-x))
    expect(same, "a density that is symmetric around 0", "another one for negative numbers")
    table = _table(law)
    masses = np.diff(table.within, prepend=0.0)
    middle = table.sizes - 0.5 * np.diff(table.sizes, prepend=-table.sizes[0])
    variance = float((masses * middle**2).sum())
    near = abs(variance - law.variance) <= _NEAR * law.variance
    expect(near, f"the variance of its density, {variance:.4g}", f"{law.variance:.4g}")


@_LAW_CHECKS("samples belong to clients")
def _of_clients(law: AdditiveNoise) -> None:
    together = law.sample(_streams(count=10), _WIDTH)
    expect(together.shape == (10, _WIDTH), f"samples of shape (10, {_WIDTH})", f"{together.shape}")
    again = law.sample(_streams(count=10), _WIDTH)
    expect(again.tobytes() == together.tobytes(), "the same samples from the same streams", "others")
    alone = law.sample(_streams(first=7, count=1), _WIDTH)
    expect(alone[0].tobytes() == together[7].tobytes(), "the same samples for a client alone", "others")
    nobody = law.sample(_streams(count=0), _WIDTH)
    expect(nobody.shape == (0, _WIDTH), f"samples of shape (0, {_WIDTH}) of nobody", f"{nobody.shape}")


@_LAW_CHECKS("samples follow its density")
def _samples(law: AdditiveNoise) -> None:
    why = _why(law.sample(_streams(), _WIDTH), law, whole=True)
    expect(why is None, "samples of this law", f"that {why}")


@_LAW_CHECKS("sums of samples follow the law of the sum")
def _sums(law: AdditiveNoise) -> None:
    for count in (1, 2, 16):
        summed = law.summed(count)
        wide = law.sample(_streams(seed=count + 1), count * _WIDTH)
        sums = wide.reshape(_SAMPLED, count, _WIDTH).sum(axis=1)
        why = _why(sums, summed, whole=False)
        expect(why is None, f"that {count} samples sum to {summed.text}", f"that {why}")


@_LAW_CHECKS("its largest loss")
def _loss(law: AdditiveNoise) -> None:
    """No point loses more than `worst_loss` says."""
    step = law.grid
    shifts = step * np.array([1.0, 5.0]) if step else law.scale * np.array([0.1, 1.0, 3.0])
    worst = law.worst_loss(shifts)
    x = step * np.arange(-30.0, 31.0) if step else law.scale * np.linspace(-20.0, 20.0, 4001)
    for shift, bound in zip(shifts, worst, strict=True):
        loss = float((law.log_density(x) - law.log_density(x - shift)).max())
        wanted = f"a loss of at most {bound:.4g} for a shift of {shift:.4g}, as worst_loss says"
        expect(loss <= bound * (1 + 1e-9) + 1e-9, wanted, f"{loss:.4g}")


@_LAW_CHECKS("its Gaussian slope")
def _slope(law: AdditiveNoise) -> None:
    """No move of one coordinate has a larger delta than a Gaussian of that mu; coordinates then compose."""
    slope = law.gaussian_slope
    if np.isinf(slope):
        return
    points, width = _points(law)
    here = np.exp(law.log_density(points))
    wide = [width * steps for steps in (2, 20, _FINE)]
    for shift in (width, *(shift for shift in wide if shift**2 <= 9.0 * law.variance)):
        there, mu = np.exp(law.log_density(points - shift)), shift * slope
        for eps in np.linspace(0.0, 3.0 * mu, 13):
            delta = width * float(np.maximum(here - np.exp(eps) * there, 0.0).sum())
            most = gaussian_delta(mu, float(eps))
            wanted = f"a delta of at most {most:.4g} at epsilon {eps:.4g} for a shift of {shift:.4g}"
            found = f"{delta:.4g}, more than its gaussian_slope of {slope:.4g} allows"
            expect(delta <= most * (1.0 + _CLOSE) + 1e-12, wanted, found)


def _points(law: AdditiveNoise) -> tuple[Floats, float]:
    """Where a density is summed, and how far apart: on its grid; else the middles of bins that part at 0."""
    deviation, step = float(np.sqrt(law.variance)), law.grid
    width = step * max(1.0, np.rint(deviation / (_FINE * step))) if step else deviation / _FINE
    most = np.ceil(_FAR * deviation / width) + _FAR
    return width * (np.arange(-most, most + 1.0) + (0.0 if step else 0.5)), float(width)
