"""Canaries: two neighbouring inputs of one client, which the games of an audit tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foltr_audit.auditing.scripted import Bools, Floats, Ints, ScriptedClients
from foltr_audit.chain import Chain
from foltr_audit.errors import UsageError
from foltr_audit.fresh import FreshClients
from foltr_audit.metrics import LIST_LENGTH
from foltr_audit.plugins import ClickModel, RoundContext
from foltr_audit.progress import NO_TICK, Tick
from foltr_audit.records.privacy import Bounded
from foltr_audit.registry import make
from foltr_audit.setup import Setup

_Asked = tuple[int, Bools]
_Found = tuple[_Asked, _Asked, float]
_Farthest = Callable[[Floats, int, float], tuple[int, int, float]]

_KEPT = 32  # click patterns of a query that stay in the race for the farthest two of different queries
_FAR = 1e3  # how many radii away from the middle of its ball an extreme model starts


@dataclass(frozen=True, kw_only=True, eq=False)
class Canary:
    """Two neighbouring inputs of one client.

    Attributes:
        name: `data:worst`, `data:typical`, `data:no-click` or `message`.
        unit: what the two differ in.
        about: the pair in words.
        shift: how far apart their messages are without noise, in the norm that was searched in.
    """

    name: str
    unit: str
    about: str
    shift: float = 0.0

    def local(
        self, clients: ScriptedClients, which: Ints, context: RoundContext, chain: Chain | None = None
    ) -> Floats:
        """Local models (C, P) of clients that hold input 0 or 1 (C,); `chain` stands in for their own."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class LogCanary(Canary):
    """Two click logs of the same length.

    Attributes:
        queries: int64 (2, B).
        clicks: bool (2, B, k).
    """

    queries: Ints
    clicks: Bools

    def local(
        self, clients: ScriptedClients, which: Ints, context: RoundContext, chain: Chain | None = None
    ) -> Floats:
        """What the clients have learnt from their logs."""
        return clients.local(self.queries[which], self.clicks[which], context, chain)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCanary(Canary):
    """Two local models as they are before the step stage.

    Attributes:
        models: float64 (2, P).
    """

    models: Floats

    def local(
        self, clients: ScriptedClients, which: Ints, context: RoundContext, chain: Chain | None = None
    ) -> Floats:
        """The models after the step stage."""
        every = np.ones(which.size, dtype=np.bool_)
        return (chain or clients.setup.chain).on_step(self.models[which], every, 0, context)[0]


def patterns_of(k: int, width: int) -> Bools:
    """Every click pattern of a list of `width` documents, bool (2^width, k); row r clicks the bits of r."""
    rows = np.arange(2**width)
    clicks = np.zeros((rows.size, k), dtype=np.bool_)
    clicks[:, :width] = (rows[:, np.newaxis] >> np.arange(width)) & 1
    return clicks


class CanarySearch:
    """Searches the attacked queries of an experiment for neighbouring click logs.

    Distances are those of the messages of one interaction without noise; with B interactions a client
    repeats them. Ties go to the query that comes first.
    """

    def __init__(self, clients: ScriptedClients, fresh: FreshClients, interactions: int, order: int) -> None:
        """Nothing is searched yet; `order` 1 or 2 is the norm that a shift is measured in."""
        self.clients = clients
        self.fresh = fresh
        self.interactions = interactions
        self.order = order

    def find(self, name: str, unit: str, tick: Tick = NO_TICK) -> Canary:
        """A canary made of data: `data:worst`, `data:typical` or `data:no-click`.

        Raises:
            UsageError: no two neighbouring logs send different messages.
        """
        if name == "data:typical":
            return self._typical(unit)
        finders = {
            ("data:worst", "click"): self._farthest_flip,
            ("data:worst", "client"): self._farthest_of_all,
            ("data:no-click", "click"): self._farthest_first_click,
        }
        default = self._farthest_from_no_click if name == "data:no-click" else self._farthest_logs
        found = finders.get((name, unit), default)(tick)
        if found is None:
            raise UsageError(
                f"--canary {name}: no two logs that differ in one {unit} send different messages here"
            )
        zero, one, apart = found
        return self._canary(name, unit, zero, one, apart)

    # --- searches: each the farthest (query, clicks) twice, with their distance ---------------------

    def _messages(self, tick: Tick) -> Iterator[tuple[int, Bools, Floats]]:
        """Each query with every click pattern of its list and the message that it makes, (2^w, P)."""
        queries = self.fresh.queries
        widths = (self.clients.lists(queries) >= 0).sum(axis=1)
        for query, width in zip(queries.tolist(), widths.tolist(), strict=True):
            clicks = patterns_of(LIST_LENGTH, width)
            asked = np.full((clicks.shape[0], 1), query)
            context = self.clients.context(0, np.arange(clicks.shape[0]))
            local = self.clients.local(asked, clicks[:, np.newaxis], context, self.clients.quiet)
            yield query, clicks, np.ascontiguousarray(self.clients.quiet_message(local, 0))
            tick()

    def _farthest_logs(self, tick: Tick) -> _Found | None:
        from foltr_audit.kernels.farthest import farthest_pair

        return self._farthest(tick, farthest_pair)

    def _farthest_flip(self, tick: Tick) -> _Found | None:
        from foltr_audit.kernels.farthest import farthest_flip

        return self._farthest(tick, farthest_flip)

    def _farthest(self, tick: Tick, farthest: _Farthest) -> _Found | None:
        """The farthest two logs of one query, by a kernel that looks for pairs beyond the best so far."""
        found, best = None, 0.0
        for query, clicks, points in self._messages(tick):
            i, j, apart = farthest(points, self.order, best)
            if apart > best:
                best = apart
                found = (query, clicks[min(i, j)]), (query, clicks[max(i, j)]), apart
        return found

    def _farthest_from_no_click(self, tick: Tick, *, most: int | None = None) -> _Found | None:
        found, best = None, 0.0
        for query, clicks, points in self._messages(tick):
            shifts = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            if most is not None:
                shifts[clicks.sum(axis=1) > most] = 0.0
            j = int(np.argmax(shifts))
            if shifts[j] > best:
                best = float(shifts[j])
                found = (query, clicks[0]), (query, clicks[j]), best
        return found

    def _farthest_first_click(self, tick: Tick) -> _Found | None:
        return self._farthest_from_no_click(tick, most=1)

    def _farthest_of_all(self, tick: Tick) -> _Found | None:
        """The farthest logs of any two queries, among those of each query that move the model most."""
        from foltr_audit.kernels.farthest import farthest_pair

        logs: list[tuple[int, Bools]] = []
        kept: list[Floats] = []
        for query, clicks, points in self._messages(tick):
            moves = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            far = np.argsort(-moves, kind="stable")[:_KEPT]
            logs.extend((query, clicks[row]) for row in far)
            kept.append(points[far])
        i, j, apart = farthest_pair(np.concatenate(kept), self.order, 0.0)
        return (logs[min(i, j)], logs[max(i, j)], apart) if apart > 0 else None

    # --- from a pair of lists to logs of B interactions ----------------------------------------------

    def _canary(self, name: str, unit: str, zero: _Asked, one: _Asked, shift: float = 0.0) -> LogCanary:
        (query0, clicks0), (query1, clicks1) = zero, one
        pair = f"clicks {_places(clicks0)} against {_places(clicks1)}"
        if query1 != query0:
            pair = f"clicks {_places(clicks0)} against query {self._name(query1)}, clicks {_places(clicks1)}"
        B = self.interactions
        clicks = np.repeat(np.stack([clicks0, clicks1])[:, np.newaxis], B, axis=1)
        if unit in ("click", "interaction"):  # the client's other interactions stay as they are
            clicks[1, 1:] = clicks0
        return LogCanary(
            name=name,
            unit=unit,
            about=f"query {self._name(query0)}, {pair}; "
            + (f"L{self.order} shift {shift:.3g} without noise" if shift else "a random pair"),
            shift=shift,
            queries=np.repeat(np.array([[query0], [query1]]), B, axis=1),
            clicks=clicks,
        )

    def _name(self, query: int) -> str:
        collection, origin = self.clients.setup.collection, self.fresh.origin
        part = collection.PARTS[int(origin.part[query])]
        return collection.query_name(part, int(origin.query[query]))

    def _typical(self, unit: str) -> Canary:
        """A random query with clicks drawn from the click model, and a random neighbour of them."""
        setup = self.clients.setup
        rng = setup.streams.generator(f"audit/typical/{unit}")
        model = make(ClickModel, setup.spec.train.click_model)
        for _ in range(1000):
            query = int(rng.choice(self.fresh.queries))
            shown = self.clients.lists(np.array([query]))
            labels = self.clients.data.shown_labels(np.array([query, query]), np.repeat(shown, 2, axis=0))
            streams = self.clients.context(int(rng.integers(2**31)), np.arange(2)).streams("typical")
            zero, one = model.click(labels, setup.collection.largest_label, streams, 0)
            if unit == "click":
                one = zero.copy()
                place = int(rng.integers((shown >= 0).sum()))
                one[place] = not one[place]
            if np.any(zero != one):
                return self._canary("data:typical", unit, (query, zero), (query, one))
        raise UsageError("--canary data:typical: no two different click logs in 1000 draws")


def message_canaries(setup: Setup, parameters: Floats, directions: Sequence[Floats]) -> Iterator[ModelCanary]:
    """Two models at opposite ends of the ball that the chain keeps models or updates in, per direction.

    They start far outside, so that the chain's own clip has to bring them in.

    Raises:
        UsageError: the chain keeps messages in no ball.
    """
    balls = [event for event in setup.events() if isinstance(event, Bounded)]
    if not balls:
        raise UsageError(
            "--canary message: the chain keeps no message in a ball, so that there are no extreme ones; "
            "expected a clip in --defense, or another canary"
        )
    middle = parameters if balls[-1].of == "update" else np.zeros_like(parameters)
    for direction in directions:
        far = direction / np.linalg.norm(direction) * balls[-1].norm * _FAR
        yield ModelCanary(
            name="message",
            unit="client",
            models=np.stack([middle - far, middle + far]),
            about=f"two models at opposite ends of the L{balls[-1].ord:g} ball of radius {balls[-1].norm:g}",
        )


def extreme_directions(parameters: int) -> list[Floats]:
    """One coordinate alone, and all of them alike: where the L1 and the L2 norm reach their extremes."""
    return [np.eye(parameters)[0], np.ones(parameters)]


def _places(clicks: Bools) -> str:
    """Clicked places of a list from 1, e.g. `1,3,4`; `none` without a click."""
    return ",".join(str(place + 1) for place in np.flatnonzero(clicks)) or "none"
