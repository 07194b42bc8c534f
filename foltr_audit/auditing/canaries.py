"""The search for canaries: neighbouring inputs whose messages, or whose lists, lie far apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.neighbours import LogCanary, ModelCanary
from foltr_audit.auditing.scripted import GameClients
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.answers import clicks_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.errors import UsageError
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.privacy.events import NormBound
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Bools, Floats, Ints
from foltr_audit.utils.progress import NO_TICK, Tick

_Farthest = Callable[[Floats, int, float], tuple[int, int, float]]

_KEPT = 32  # click patterns of a query that stay in the race for the farthest two of different queries
_FAR = 1e3  # how many radii away from the middle of its ball an extreme model starts
_TRIED = 16  # pairs of click patterns whose later lists are looked at


class _ClickLog(NamedTuple):
    """One interaction: a query and the clicks on its list, bool (k,)."""

    query: int
    clicks: Bools


class _LogPair(NamedTuple):
    """Two interactions and how far apart what follows from them is."""

    zero: _ClickLog
    one: _ClickLog
    shift: float


class CanarySearch:
    """Searches the queries of an experiment for neighbouring click logs.

    Lists are in score order, and every click pattern of each is tried. Distances are those of the messages
    of one interaction without noise. Ties go to the query that comes first.
    """

    def __init__(self, clients: GameClients, fresh: FreshClients, interactions: int, order: int) -> None:
        """Nothing is searched yet; `order` 1 or 2 is the norm that a shift is measured in."""
        self.clients = clients
        self.fresh = fresh
        self.interactions = interactions
        self.order = order

    def find(self, name: str, unit: str, tick: Tick = NO_TICK) -> LogCanary:
        """A canary made of data: `data:worst`, `data:typical`, `data:no-click` or `data:lists`.

        Raises:
            UsageError: no two neighbouring logs send different messages, or lead to different lists.
        """
        if name == "data:typical":
            return self._canary(name, unit, self._typical(unit), "a random pair")
        if name == "data:lists":
            return self._lists(unit, tick)
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
        return self._canary(name, unit, found, f"L{self.order} shift {found.shift:.3g} without noise")

    # --- searches for the farthest pair ---------------------------------------------------------------

    def _messages(self, tick: Tick) -> Iterator[tuple[int, Bools, Floats]]:
        """Each query with every click pattern of its list and the message that it makes, (2^w, P)."""
        queries = self.fresh.queries
        widths = (self.clients.lists(queries) >= 0).sum(axis=1)
        for query, width in zip(queries.tolist(), widths.tolist(), strict=True):
            clicks = patterns_as_clicks(np.arange(1 << width), LIST_LENGTH)
            asked = np.full((clicks.shape[0], 1), query)
            context = self.clients.context(0, np.arange(clicks.shape[0]))
            local = self.clients.play(asked, clicks[:, np.newaxis], context, self.clients.quiet).models
            yield query, clicks, np.ascontiguousarray(self.clients.quiet_message(local, 0))
            tick()

    def _farthest_logs(self, tick: Tick) -> _LogPair | None:
        return self._farthest(tick, _farthest_pair)

    def _farthest_flip(self, tick: Tick) -> _LogPair | None:
        return self._farthest(tick, _farthest_flip)

    def _farthest(self, tick: Tick, farthest: _Farthest) -> _LogPair | None:
        """The farthest two logs of one query, by a kernel that looks for pairs beyond the best so far."""
        found, best = None, 0.0
        for query, clicks, points in self._messages(tick):
            i, j, apart = farthest(points, self.order, best)
            if apart > best:
                best = apart
                found = _LogPair(
                    _ClickLog(query, clicks[min(i, j)]), _ClickLog(query, clicks[max(i, j)]), apart
                )
        return found

    def _farthest_from_no_click(self, tick: Tick, *, most: int | None = None) -> _LogPair | None:
        found, best = None, 0.0
        for query, clicks, points in self._messages(tick):
            shifts = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            if most is not None:
                shifts[clicks.sum(axis=1) > most] = 0.0
            j = int(np.argmax(shifts))
            if shifts[j] > best:
                best = float(shifts[j])
                found = _LogPair(_ClickLog(query, clicks[0]), _ClickLog(query, clicks[j]), best)
        return found

    def _farthest_first_click(self, tick: Tick) -> _LogPair | None:
        return self._farthest_from_no_click(tick, most=1)

    def _farthest_of_all(self, tick: Tick) -> _LogPair | None:
        """The farthest logs of any two queries, among those of each query that move the model most."""
        logs: list[_ClickLog] = []
        kept: list[Floats] = []
        for query, clicks, points in self._messages(tick):
            moves = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            far = np.argsort(-moves, kind="stable")[:_KEPT]
            logs.extend(_ClickLog(query, clicks[row]) for row in far)
            kept.append(points[far])
        i, j, apart = _farthest_pair(np.concatenate(kept), self.order, 0.0)
        return _LogPair(logs[min(i, j)], logs[max(i, j)], apart) if apart > 0 else None

    # --- the search for different lists ---------------------------------------------------------------

    def _lists(self, unit: str, tick: Tick) -> LogCanary:
        """The pair whose local models rank some later query most differently.

        Of the pairs whose messages lie farthest apart, by query. A later query is any one, but for unit
        `query` the same one.
        """
        if self.interactions < 2:
            raise UsageError(
                "--canary data:lists: one list a message; expected --canary-interactions 2 or more"
            )
        if self.clients.setup.learner.ranked_with == "global":
            raise UsageError(
                "--canary data:lists: the global model ranks every list, whatever is clicked; expected "
                "another canary"
            )
        farthest = _farthest_flip if unit == "click" else _farthest_pair
        pairs = []
        for query, clicks, points in self._messages(tick):
            i, j, apart = farthest(points, self.order, 0.0)
            if apart > 0:
                pairs.append(
                    _LogPair(_ClickLog(query, clicks[min(i, j)]), _ClickLog(query, clicks[max(i, j)]), apart)
                )
        best: tuple[float, _LogPair, int] | None = None
        for pair in nlargest(_TRIED, pairs, key=lambda each: each.shift):
            queries = np.array([pair.zero.query]) if unit == "query" else self.fresh.queries
            told = self._told_by_lists(pair, queries)
            place = int(np.argmax(told))
            if told[place] > 0 and (best is None or told[place] > best[0]):
                best = float(told[place]), pair, int(queries[place])
        if best is None:
            raise UsageError(
                f"--canary data:lists: no two logs that differ in one {unit} lead to different lists here"
            )
        told_most, pair, later = best
        how = f"later lists of query {self._name(later)}, log ratio {told_most:.3g} if sampled"
        return self._canary("data:lists", unit, pair._replace(shift=told_most), how, later)

    def _told_by_lists(self, pair: _LogPair, queries: Ints) -> Floats:
        """How well the lists of each query, in score order, tell the local models of a pair apart, (n,).

        The Plackett-Luce log ratios of either model's list, added up; 0 where both lists are the same.
        """
        from foltr_audit.kernels.list_evidence import list_log_probabilities

        asked = np.array([[pair.zero.query], [pair.one.query]])
        clicks = np.stack([pair.zero.clicks, pair.one.clicks])[:, np.newaxis]
        context = self.clients.context(0, np.arange(2))
        models = self.clients.play(asked, clicks, context, self.clients.quiet).models
        lists = [self.clients.lists(queries, model[np.newaxis]) for model in models]
        logs = np.empty((2, 2, queries.size))
        for m, model in enumerate(models):
            scores, starts = self.clients.scores(model[np.newaxis], queries)
            for i, shown in enumerate(lists):
                logs[m, i] = list_log_probabilities(scores, starts, shown)
        ratio = logs[0, 0] - logs[1, 0] + logs[1, 1] - logs[0, 1]
        return np.where(np.any(lists[0] != lists[1], axis=1), ratio, 0.0)

    # --- from a pair to logs of B interactions --------------------------------------------------------

    def _canary(self, name: str, unit: str, pair: _LogPair, how: str, later: int | None = None) -> LogCanary:
        """Logs of B interactions, of which units below a query replace the first one alone.

        The other interactions of these, of the query `later`, have no clicks: then what the first one has
        taught the local model stays in it.
        """
        zero, one, B = pair.zero, pair.one, self.interactions
        words = f"clicks {_places(zero.clicks)} against {_places(one.clicks)}"
        if one.query != zero.query:
            words = (
                f"clicks {_places(zero.clicks)} against query {self._name(one.query)}, "
                f"clicks {_places(one.clicks)}"
            )
        queries = np.repeat(np.array([[zero.query], [one.query]]), B, axis=1)
        clicks = np.repeat(np.stack([zero.clicks, one.clicks])[:, np.newaxis], B, axis=1)
        if unit in ("click", "interaction"):
            clicks[:, 1:] = False
        if later is not None:
            queries[:, 1:] = later
        return LogCanary(
            name=name,
            unit=unit,
            about=f"query {self._name(zero.query)}, {words}; {how}",
            shift=pair.shift,
            queries=queries,
            clicks=clicks,
        )

    def _name(self, query: int) -> str:
        collection, origin = self.clients.setup.collection, self.fresh.origin
        part = collection.PARTS[int(origin.part[query])]
        return collection.query_name(part, int(origin.query[query]))

    def _typical(self, unit: str) -> _LogPair:
        """A random query with clicks drawn from the click model, and a random neighbour of them."""
        setup = self.clients.setup
        rng = setup.streams.generator(f"audit/typical/{unit}")
        model = make(ClickModel, setup.spec.train.click_model)
        for _ in range(1000):
            query = int(rng.choice(self.fresh.queries))
            shown = self.clients.lists(np.array([query]))
            labels = self.clients.data.shown_labels(np.array([query, query]), np.repeat(shown, 2, axis=0))
            streams = self.clients.context(int(rng.integers(2**31)), np.arange(2)).streams("typical")
            zero, one = clicks_of(model, labels, setup.collection.largest_label, streams, 0)
            if unit == "click":
                one = zero.copy()
                place = int(rng.integers((shown >= 0).sum()))
                one[place] = not one[place]
            if np.any(zero != one):
                return _LogPair(_ClickLog(query, zero), _ClickLog(query, one), 0.0)
        raise UsageError("--canary data:typical: no two different click logs in 1000 draws")


def message_canaries(setup: Setup, parameters: Floats, directions: Sequence[Floats]) -> Iterator[ModelCanary]:
    """Two models at opposite ends of the ball that the chain keeps models or updates in, per direction.

    They start far outside, so that the chain's own clip has to bring them in.

    Raises:
        UsageError: the chain keeps messages in no ball.
    """
    balls = [event for event in setup.privacy.events() if isinstance(event, NormBound)]
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


def _farthest_pair(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    from foltr_audit.kernels.farthest import farthest_pair

    return farthest_pair(points, order, least)


def _farthest_flip(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    from foltr_audit.kernels.farthest import farthest_flip

    return farthest_flip(points, order, least)
