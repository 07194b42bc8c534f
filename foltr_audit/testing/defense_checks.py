"""The contracts of defenses and laws of noise: what hooks return, and that defenses do what they declare."""

from __future__ import annotations

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
from foltr_audit.core.plugins.answers import array_of, claims_of, events_of, law_of, one_of
from foltr_audit.core.plugins.defense import HOOKS, Stage
from foltr_audit.core.plugins.registry import make
from foltr_audit.errors import FoltrAuditError
from foltr_audit.privacy.events import (
    UNITS,
    ClickRandomization,
    CorrelatedNoise,
    GridRounding,
    MetricRandomization,
    NoiseAddition,
    NormBound,
)
from foltr_audit.privacy.gaussian_dp import gaussian_delta
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.rng import ClientStreams, Streams
from foltr_audit.testing.contract import (
    CheckList,
    ContractCheck,
    PluginChecks,
    expect,
    run_checks,
    same_each_time,
)
from foltr_audit.testing.samples import FEATURES, context, generator, tiny_setup
from foltr_audit.utils.arrays import Bools, Floats, Ints

Arrays = tuple[Floats | Ints | Bools, ...]

_CHECKS = PluginChecks(Defense)
defense_checks, check_defense = _CHECKS.of_plugin, _CHECKS.check

_CLIENTS = np.array([11, 4, 7, 0, 23])
_VALUES = np.append(0.0, 1 / np.arange(1, 11))
"""Values of an online metric, MaxRR of lists of ten."""


def _inputs(stage: Stage, C: int, P: int = FEATURES) -> Arrays:
    """Read-only arrays for a stage; every client has a row in each but an average."""
    rng = generator(5)
    models, weights = 3 * rng.normal(size=(C, P)), np.arange(1.0, C + 1) / max(1.0, C * (C + 1) / 2)
    shown = np.where(np.arange(10) < rng.integers(1, 11, size=(C, 1)), np.arange(10), -1)
    inputs: dict[str, Arrays] = {
        "click": ((rng.random((C, 10)) < 0.4) & (shown >= 0), shown),
        "metric": (rng.integers(0, _VALUES.size, size=C),),
        "wire": (models, np.arange(C) % 4 != 1),
        "aggregate": (weights @ models, models, weights),
    }
    for array in inputs.setdefault(stage, (models,)):
        array.flags.writeable = False
    return inputs[stage]


def _stages(defense: Defense) -> tuple[Stage, ...]:
    return defense.stages or ("message",)  # also of one that does nothing


def _applied(defense: Defense, stage: Stage, arrays: Arrays, round_: RoundContext) -> Arrays:
    """What the hook of a stage makes of arrays, after checks that hold for every stage."""
    hook = HOOKS[stage]
    who = f"defense {defense.name}: {hook}"
    more: tuple[object, ...] = {"click": (0,), "metric": (_VALUES, 0)}.get(stage, ())
    out = getattr(defense, hook)(*arrays, *more, round_)
    made: Arrays = (out,)
    if stage == "wire":
        wired = one_of(who, out, WireMessages)
        made = (np.asarray(wired.messages, dtype=np.float64), wired.survivors)
        back = wired.survivors & np.logical_not(arrays[1])
        expect(not back.any(), "that lost messages stay lost", "one that comes back")
    for new, old in zip(made, arrays, strict=False):
        array_of(who, new, old.shape, "truth values" if old.dtype.kind == "b" else "numbers")
        shared = bool(defense.stages) and any(np.shares_memory(new, given) for given in arrays)
        expect(not shared, f"a new array from {hook}", "the array that it was given")
    if stage == "click":
        expect(not made[0][arrays[1] < 0].any(), "no click at the padding", "one")
    if stage == "metric":
        inside = (made[0] >= 0) & (made[0] < _VALUES.size)
        expect(inside.all(), f"outcomes from 0 to {_VALUES.size - 1}", "another one")
    if stage in ("step", "message", "aggregate"):
        expect(np.isfinite(made[0]).all(), "finite numbers", "others")
    return made


@_CHECKS("same seed, same bytes")
def _same_seed(defense: Defense) -> None:
    for stage in _stages(defense):
        arrays = _inputs(stage, _CLIENTS.size)

        def output(stage: Stage = stage, arrays: Arrays = arrays) -> list[bytes]:
            return [array.tobytes() for array in _applied(defense, stage, arrays, context(_CLIENTS))]

        same_each_time(output, f"output of {HOOKS[stage]}")


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
            mine = tuple(array[row].copy() for array in arrays)
            own = _applied(defense, stage, mine, context(_CLIENTS[row]))
            same = all(a.tobytes() == b[row].tobytes() for a, b in zip(own, together, strict=True))
            wanted = "the same row for a client alone as in its cohort: n comes from context.shares"
            expect(same, wanted, f"another one of {HOOKS[stage]}")


@_CHECKS("nobody, and one parameter")
def _smallest(defense: Defense) -> None:
    for stage in _stages(defense):
        _applied(defense, stage, _inputs(stage, 0), context([]))
        _applied(defense, stage, _inputs(stage, _CLIENTS.size, P=1), context(_CLIENTS, P=1))


_DRAWS = 20_000  # metrics for each true outcome
_MANY = 65_536  # clients whose noise is compared with its law at once: one per cent more or less is found


def _round(P: int = FEATURES, clients: int = 1) -> RoundContext:
    return context(np.arange(clients), P=P)


@_CHECKS("its ball is what its on_step does")
def _ball(defense: Defense) -> None:
    ball = defense.ball
    if ball is None:
        return
    for P in (1, FEATURES):
        models = np.geomspace(1e-300, 1e100, 40)[:, np.newaxis] * generator(7).normal(size=(40, P))
        stepped = defense.on_step(models, _round(P, len(models)))
        wanted = f"models scaled into the L{ball.ord} ball of {ball.norm:g} that `ball` declares"
        expect(stepped.tobytes() == ball.projected(models).tobytes(), wanted, "other models from on_step")


@_CHECKS("bounds, noise and randomised clicks are as declared")
def _lawful(defense: Defense) -> None:
    """The tests of an audit: distribution and independence, over clients, rounds, local steps and seeds."""
    if not defense.stages or "metric" in defense.stages:
        return
    setup, rng = tiny_setup(defense=defense.text, clients=30), generator(13)
    model = np.linspace(-0.3, 0.3, setup.ranker.n_parameters)
    clients = GameClients(setup, setup.collection.test, model)
    far = 50.0 if law_of(defense, _round()) is not None else 1e12  # which no noise hides
    models = np.stack([model + 0.1, rng.normal(size=model.size), far * np.eye(model.size)[1]])
    where = ["a client that learns", "a model of size 1", f"a model of size {far:g}"]
    inputs = [LinkTestInput.resting("a", clients), LinkTestInput(clients=clients, models=models, where=where)]
    found = check_declarations(setup.privacy.acts(), clients, inputs, interactions=2)
    wanted = "what its events and its law declare"
    expect(not found.broken, wanted, found.why)
    expect(not found.not_looked, f"{wanted}, told from its inputs and outputs", found.why)


@_CHECKS("its bounds hold for models that are not finite too")
def _bounds(defense: Defense) -> None:
    models = np.tile(_inputs("step", 1)[0], (6, 1))
    models[:4, 1], models[4:] = [np.nan, np.inf, -np.inf, 1e308], [[np.nan], [1.7e308]]
    round_ = _round(clients=len(models))
    for stage in defense.stages:
        events = events_of(defense, round_, stage)
        last = events[-1] if events and stage in ("step", "message") else None
        if not isinstance(last, NormBound):
            continue
        try:
            with np.errstate(all="ignore"):
                sent = getattr(defense, HOOKS[stage])(models.copy(), round_)
        except FoltrAuditError:
            continue  # what it refuses, nobody sends
        sizes = np.linalg.norm(sent - (round_.parameters if last.of == "update" else 0.0), last.ord, axis=1)
        wanted = f"a model or update in the ball of {last.norm:g} for NaN, infinity and 1e308"
        expect((sizes <= last.norm * (1 + 1e-9)).all(), wanted, f"one of size {sizes.max():g}")


@_CHECKS("what has a law of noise adds that much of it, and does nothing else")
def _only_noise(defense: Defense) -> None:
    """Attacks and audits take a message for what came before plus noise of that law, up to rounding."""
    law = law_of(defense, _round())
    if law is None:
        return
    stages = [stage for stage in ("step", "message") if stage in defense.stages]
    expect(stages, "an on_step or on_message that adds the noise of its law", "neither")
    events = events_of(defense, _round())
    stated = [event.law for event in events if isinstance(event, NoiseAddition)]
    expect(stated == [law], f"events that state the noise {law.text} once", f"{[one.text for one in stated]}")
    rounding = sum(event.step for event in events if isinstance(event, GridRounding))
    for stage in stages:
        hook, round_ = getattr(defense, HOOKS[stage]), _round(clients=_MANY)
        noise = hook(np.zeros((_MANY, FEATURES)), round_)
        tests = list(check_distribution(NoiseDraws(noise, "of a model of zeros", axes=()), law, _table(law)))
        why = failure(tests, len(tests))
        expect(why is None, f"noise of the law {law.text}", f"that {why}")
        for size in (1e-6, 1.0, 30.0, 1e6):
            models = size * generator(11).normal(size=noise.shape)
            models[::2] *= models[::2] > 0.0  # coordinates that did not change
            off = np.abs(hook(models, round_) - noise - models)
            room = 2.0 * rounding + 1e-9 * (np.abs(models) + np.abs(noise))
            wanted = "noise that does not look at the model: the same for every model, and nothing after it"
            expect((off <= room).all(), wanted, f"{off.max():.3g} more or less for models of size {size:g}")


@_CHECKS("metrics follow the declared channel")
def _channel(defense: Defense) -> None:
    if "metric" not in defense.stages:
        return
    channel, sums = defense.channel(_VALUES.size), defense.channel(_VALUES.size).sum(axis=1)
    proper = channel.shape == (_VALUES.size, _VALUES.size) and (channel >= 0).all()
    wanted = "a square channel whose rows are probabilities that sum to 1"
    expect(proper and np.allclose(sums, 1.0, rtol=0, atol=1e-9), wanted, f"rows that sum to {sums}")
    expect(defense.law_text(_VALUES.size), "a text of its law", "none")
    tests = []
    for truth, chances in enumerate(channel):
        sent = defense.on_metric(np.full(_DRAWS, truth), _VALUES, 0, _round(clients=_DRAWS))
        for outcome, chance in enumerate(chances):
            count = int((sent == outcome).sum())
            times = f"{count} times in {_DRAWS}, by the channel {chance:.4g}"
            surprise = two_sided(count, _DRAWS, float(chance)) if chance > 0 else float(count == 0)
            tests.append(LawTestResult(surprise, f"value {outcome} is sent for {truth} {times}"))
    why = failure(tests, len(tests))
    expect(why is None, "metrics that follow the declared channel", f"that {why}")
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = float(np.nanmax(np.log(channel[:, np.newaxis] / channel[np.newaxis])))
    for event in events_of(defense, _round()):
        if isinstance(event, MetricRandomization):
            wanted = f"the declared epsilon of {event.epsilon:g} at least"
            within = largest <= event.epsilon * (1 + 1e-6) + 1e-9
            expect(within, wanted, f"a channel with epsilon {largest:.4g}")


@_CHECKS("claims are complete, and the same in every round")
def _claims(defense: Defense) -> None:
    first, later = context([11, 4], round_=0), context([11, 4], round_=40)
    for claim in claims_of(defense, first):
        expect(claim.epsilon > 0, "a claimed epsilon above 0", claim.epsilon)
        expect(0 <= claim.delta < 1, "a claimed delta from 0 to below 1", claim.delta)
        relations = ("replace-one", "add-remove")
        expect(claim.relation in relations, " or ".join(relations), repr(claim.relation))
        expect(claim.unit in UNITS, f"a unit of {', '.join(UNITS)}", repr(claim.unit))
        expect(claim.view in VIEWS, f"a view of {', '.join(VIEWS)}", repr(claim.view))
    for what, declared in (("events", events_of), ("claims", claims_of), ("law", law_of)):
        same = declared(defense, first) == declared(defense, later)
        expect(same, f"the same {what} in every round", "others in a later round")
    bits = defense.message_bits(FEATURES, 32)
    expect(isfinite(bits) and bits > 0, "a positive number of bits of a message", repr(bits))


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


_LAW_CHECKS = CheckList()
_SAMPLED, _WIDTH = 4096, 6
_CLOSE = 1e-4  # of probabilities, and relative of deltas, computed from a density
_FINE = 200  # points in a standard deviation at which a density is summed
_FAR = 40  # standard deviations up to which it is summed


def noise_law_checks(law: AdditiveNoise) -> list[ContractCheck]:
    """The checks of a law of noise, each with its name, e.g. for `pytest.mark.parametrize`."""
    return _LAW_CHECKS.of(law, f"noise law {law.text}")


def check_noise_law(law: AdditiveNoise) -> None:
    """Check that a law of noise is one: samples follow its density, and sums of samples the law of sums.

    Tests have fixed seeds, as those of `check_defense`. Raises a `ContractError` that says what failed.
    """
    run_checks(noise_law_checks(law))


def _streams(first: int, count: int, seed: int = 1) -> ClientStreams:
    return Streams(seed).clients("law", 0, np.arange(first, first + count))


def _table(law: AdditiveNoise) -> LawTable:
    table = law_table(law)
    expect(table is not None, "a density that integrates to 1", "one that integrates to more")
    return table or LawTable(np.zeros(1), np.ones(1), 1.0)


@_LAW_CHECKS("its density")
def _density(law: AdditiveNoise) -> None:
    positive = law.scale > 0 and law.variance > 0
    expect(positive, "a positive scale and variance", f"{law.scale}, {law.variance}")
    x = law.scale * np.concatenate([[0.0], np.geomspace(1e-200, 1e200, 401)])
    x = np.append(x[x < 1e6 * law.scale], [1e300]) if law.grid == 0 else law.grid * np.arange(50.0)
    density = law.log_density(x)
    expect(np.isfinite(density).all(), "a finite log density for every finite number", "others")
    same = np.array_equal(density, law.log_density(-x))
    expect(same, "a density that is symmetric around 0", "another one for negative numbers")


@_LAW_CHECKS("samples belong to clients")
def _of_clients(law: AdditiveNoise) -> None:
    together = law.sample(_streams(0, 10), _WIDTH).tobytes()
    alone = [law.sample(_streams(client, 1), _WIDTH).tobytes() for client in range(10)]
    expect(together == b"".join(alone), "the same samples for a client alone", "others")


@_LAW_CHECKS("samples, and their sums, follow its density")
def _samples(law: AdditiveNoise) -> None:
    for count in (2, 16, 1):
        summed = law.summed(count)
        wide = law.sample(_streams(0, _SAMPLED, seed=count), count * _WIDTH)
        sums = wide.reshape(_SAMPLED, count, _WIDTH).sum(axis=1)
        if count == 1:
            tests = list(check_noise(NoiseDraws(sums, "of this law"), law, _table(law), generator(17)))
        else:
            tests = list(check_distribution(NoiseDraws(sums, "of this law", axes=()), summed, _table(summed)))
        why = failure(tests, len(tests))
        expect(why is None, f"that {count} samples sum to {summed.text}", f"that {why}")


@_LAW_CHECKS("its largest loss")
def _loss(law: AdditiveNoise) -> None:
    step = law.grid
    shifts = step * np.array([1.0, 5.0]) if step else law.scale * np.array([0.1, 1.0, 3.0])
    x = step * np.arange(-30.0, 31.0) if step else law.scale * np.linspace(-20.0, 20.0, 4001)
    for shift, bound in zip(shifts, law.worst_loss(shifts), strict=True):
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
