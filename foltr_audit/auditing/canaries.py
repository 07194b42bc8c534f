"""Canaries: two neighbouring inputs of one client, and the search for those that differ most."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import nlargest
from typing import Any, NamedTuple

import numpy as np

from foltr_audit.auditing.scripted import GameClients, LocalResult
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import ClickModel, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import clicks_of
from foltr_audit.core.plugins.defense import stages_of
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.errors import UsageError
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.privacy.events import NormBound
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.utils.arrays import Bools, Floats, Ints, read_only
from foltr_audit.utils.progress import NO_TICK, Tick


@dataclass(frozen=True, kw_only=True, eq=False)
class Canary(ABC):
    """Two neighbouring inputs of one client.

    The name is one of `core.settings.audit.Canary`, the unit what the two differ in, `about` the pair in
    words, and `shift` the distance of their messages, or of their lists, without noise, that the search
    maximised.
    """

    name: str
    unit: str
    about: str
    shift: float = 0.0

    @abstractmethod
    def play(
        self,
        clients: GameClients,
        which: Ints,
        context: RoundContext,
        chain: DefenseChain | None = None,
        *,
        sampled: bool = False,
    ) -> LocalResult:
        """The local models of clients that hold these inputs, and their lists; see `GameClients.play`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogCanary(Canary):
    """Two click logs of the same length: queries, int64 (2, B), and clicks, bool (2, B, k)."""

    queries: Ints
    clicks: Bools

    def play(self, clients: GameClients, which: Ints, *args: Any, sampled: bool = False) -> LocalResult:
        """See `Canary.play`."""
        return clients.play(self.queries[which], self.clicks[which], *args, sampled=sampled)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCanary(Canary):
    """Two local models as they are before the step stage, float64 (2, P)."""

    models: Floats

    def play(
        self,
        clients: GameClients,
        which: Ints,
        context: RoundContext,
        chain: DefenseChain | None = None,
        *,
        sampled: bool = False,
    ) -> LocalResult:
        """See `Canary.play`; there are no lists."""
        every = np.ones(which.size, dtype=np.bool_)
        after, _ = (chain or clients.setup.chain).on_step(self.models[which], every, 0, context)
        return LocalResult(after, None)


_KEPT = 32  # click patterns of a query that compete for the farthest two of different queries
_FAR = 1e3  # radii from the centre of its ball at which an extreme model starts
_TRIED = 16  # pairs of click patterns whose later lists are compared: each ranks all queries again
_AT_ONCE = 8192  # click patterns that are played at a time
_PLAYED = {"click", "step", "message"}  # stages of links that a search plays
_MOST_FOUND = 256  # canaries that a process remembers


class _LogPair(NamedTuple):
    """Two queries, the clicks on their lists, bool (2, k), and how far apart their messages or lists are."""

    queries: tuple[int, int]
    clicks: Bools
    shift: float


_found: dict[tuple[object, ...], LogCanary] = {}
"""Canaries by all that a search depends on: cells of a comparison that differ in noise alone share them."""


class CanarySearch:
    """Searches the queries of an experiment for neighbouring click logs.

    Lists are in score order, and every click pattern of each list is tried. Distances are those of the
    messages of one interaction without noise. Of equals the first query is taken.
    """

    def __init__(self, clients: GameClients, fresh: FreshClients, interactions: int, order: int) -> None:
        """Nothing is searched yet; `order` 1 or 2 is the norm that a shift is measured in."""
        self.clients = clients
        self.fresh = fresh
        self.interactions = interactions
        self.order = order

    def find(self, name: str, unit: str, tick: Tick = NO_TICK) -> LogCanary:
        """A canary of click logs: `data:worst`, `data:typical`, `data:no-click` or `data:lists`."""
        key = (name, unit, *self._world)
        if key not in _found:
            canary = self._search(name, unit, tick)
            if len(_found) >= _MOST_FOUND:
                _found.clear()
            _found[key] = canary
        return _found[key]

    @property
    def _world(self) -> tuple[object, ...]:
        """Everything that decides which canary is found, but for its name and unit."""
        setup, links = self.clients.setup, enumerate(self.clients.quiet.defenses)
        spec = setup.spec.only_trained.model_copy(update={"defense": (NO_DEFENSE,)})
        acting = [(place, type(link), link.text) for place, link in links if _PLAYED & set(stages_of(link))]
        parts, arrays = self.fresh.parts, (self.fresh.queries, self.clients.parameters)
        content = (setup.collection.fingerprint, *(array.tobytes() for array in arrays))
        return self.interactions, self.order, spec.hash, *acting, *parts, *content

    def _search(self, name: str, unit: str, tick: Tick) -> LogCanary:
        if name == "data:typical":
            return self._canary(name, unit, self._typical(unit), "a random pair")
        if name == "data:lists":
            return self._lists(unit, tick)
        if name == "data:no-click":
            pairs = self._farthest_from_no_click(tick, most=1 if unit == "click" else None)
        elif unit == "client":
            pairs = self._farthest_of_all(tick)
        else:
            pairs = max(self._pairs(unit, tick, rising=True), key=lambda pair: pair.shift, default=None)
        if pairs is None:
            raise UsageError(
                f"--canary {name}: no two logs that differ in one {unit} send different messages here"
            )
        return self._canary(name, unit, pairs, f"L{self.order} shift {pairs.shift:.3g} without noise")

    def _messages(self, tick: Tick) -> Iterator[tuple[int, Bools, Floats]]:
        """Each query with every click pattern of its list and the message that it makes, (2^w, P)."""
        queries = self.fresh.queries
        widths = (self.clients.lists(queries) >= 0).sum(axis=1)
        for some in _batches(1 << widths):
            patterns = [_patterns(width) for width in widths[some].tolist()]
            sizes = [len(clicks) for clicks in patterns]
            context = self.clients.context(0, np.concatenate([np.arange(size) for size in sizes]))
            local = self.clients.play_patterns(queries[some], patterns, context)
            sent = np.ascontiguousarray(self.clients.quiet_messages(local, context))
            ends = np.cumsum(sizes)
            for query, clicked, end in zip(queries[some].tolist(), patterns, ends, strict=True):
                yield query, clicked, sent[end - len(clicked) : end]
                tick()

    def _pairs(self, unit: str, tick: Tick, *, rising: bool) -> Iterator[_LogPair]:
        """The farthest two logs of each query; if `rising`, only those farther apart than all before."""
        farthest, best = farthest_flip if unit == "click" else farthest_pair, 0.0
        for query, clicks, points in self._messages(tick):
            i, j, apart = farthest(points, self.order, best)
            if apart > best:
                best = apart if rising else 0.0
                yield _LogPair((query, query), clicks[sorted((i, j))], apart)

    def _farthest_from_no_click(self, tick: Tick, *, most: int | None) -> _LogPair | None:
        """The farthest log of one query from that without a click; with at most `most` clicks."""
        found, best = None, 0.0
        for query, clicks, points in self._messages(tick):
            shifts = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            if most is not None:
                shifts[clicks.sum(axis=1) > most] = 0.0
            j = _first_largest(shifts)
            if shifts[j] > best * _MORE:
                best = float(shifts[j])
                found = _LogPair((query, query), clicks[[0, j]], best)
        return found

    def _farthest_of_all(self, tick: Tick) -> _LogPair | None:
        """The farthest logs of any two queries, among those of each query that move the model most."""
        logs: list[tuple[int, Bools]] = []
        kept: list[Floats] = []
        for query, clicks, points in self._messages(tick):
            moves = np.linalg.norm(points - points[0], ord=self.order, axis=1)
            # Only some patterns of each query are kept, since the search below is among all pairs of them
            # over all queries.
            far = np.argsort(-moves, kind="stable")[:_KEPT]
            logs.extend((query, clicks[row]) for row in far)
            kept.append(points[far])
        i, j, apart = farthest_pair(np.concatenate(kept), self.order, 0.0)
        zero, one = logs[min(i, j)], logs[max(i, j)]
        return _LogPair((zero[0], one[0]), np.stack([zero[1], one[1]]), apart) if apart > 0 else None

    def _lists(self, unit: str, tick: Tick) -> LogCanary:
        """The pair whose local models rank some later query most differently.

        It tries the pairs of the queries whose messages lie farthest apart. A later query may be any query;
        for unit `query` it is the same one.
        """
        if self.interactions < 2:
            raise UsageError(
                "--canary data:lists: one list per message; expected --canary-interactions 2 or more"
            )
        if self.clients.setup.learner.ranked_with == "global":
            raise UsageError(
                "--canary data:lists: the global model ranks every list, so that no list depends on clicks; "
                "expected another canary"
            )
        best, later = None, 0
        pairs = self._pairs(unit, tick, rising=False)
        for pair in nlargest(_TRIED, pairs, key=lambda each: each.shift):
            queries = np.array(pair.queries[:1]) if unit == "query" else self.fresh.queries
            ratios = self._list_ratios(pair, queries)
            place = int(np.argmax(ratios))
            if ratios[place] > (0.0 if best is None else best.shift):
                best, later = pair._replace(shift=float(ratios[place])), int(queries[place])
        if best is None:
            raise UsageError(
                f"--canary data:lists: no two logs that differ in one {unit} lead to different lists here"
            )
        how = f"later lists of query {self._name(later)}, log ratio {best.shift:.3g} if sampled"
        return self._canary("data:lists", unit, best, how, later)

    def _list_ratios(self, pair: _LogPair, queries: Ints) -> Floats:
        """How different the lists of each query, in score order, are under the local models of a pair, (n,).

        The Plackett-Luce log ratios of both models' lists, added up; 0 where both lists are the same.
        """
        from foltr_audit.kernels.plackett_luce import list_log_probabilities

        asked, context = np.array(pair.queries)[:, np.newaxis], self.clients.context(0, np.arange(2))
        models = self.clients.play(asked, pair.clicks[:, np.newaxis], context, self.clients.quiet).models
        lists = [self.clients.lists(queries, model[np.newaxis]) for model in models]
        logs = np.empty((2, 2, queries.size))
        for m, model in enumerate(models):
            scores, starts = self.clients.scores(model[np.newaxis], queries)
            for i, shown in enumerate(lists):
                logs[m, i] = list_log_probabilities(scores, starts, shown)
        ratio = logs[0, 0] - logs[1, 0] + logs[1, 1] - logs[0, 1]
        return np.where(np.any(lists[0] != lists[1], axis=1), ratio, 0.0)

    def _canary(self, name: str, unit: str, pair: _LogPair, how: str, later: int | None = None) -> LogCanary:
        """Logs of B interactions. For a unit below a query they differ in the first interaction alone.

        The other interactions of such a unit have no clicks, so that the local model keeps what it learnt
        from the first one. With `later` they are on that query.
        """
        (zero, one), B = pair.queries, self.interactions
        first, second = (_places(clicks) for clicks in pair.clicks)
        other = "" if one == zero else f"query {self._name(one)}, clicks "
        queries = np.repeat(np.array([[zero], [one]]), B, axis=1)
        clicks = np.repeat(pair.clicks[:, np.newaxis], B, axis=1)
        if unit in ("click", "interaction"):
            clicks[:, 1:] = False
        if later is not None:
            queries[:, 1:] = later
        return LogCanary(
            name=name,
            unit=unit,
            about=f"query {self._name(zero)}, clicks {first} against {other}{second}; {how}",
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
            # Streams are named by round and client. A random round gives each attempt clicks of its own.
            streams = self.clients.context(int(rng.integers(2**31)), np.arange(2)).streams("typical")
            zero, one = clicks_of(model, labels, setup.collection.largest_label, streams, 0)
            if unit == "click":
                one = zero.copy()
                place = int(rng.integers((shown >= 0).sum()))
                one[place] = not one[place]
            if np.any(zero != one):
                return _LogPair((query, query), np.stack([zero, one]), 0.0)
        raise UsageError("--canary data:typical: no two different click logs in 1000 draws")


def message_canaries(events: Sequence[PrivacyEvent], parameters: Floats) -> Iterator[ModelCanary]:
    """Pairs of models at opposite ends of the ball that a chain with these events clips to.

    They differ in one coordinate alone, or in all of them equally: there the ratio of L1 and L2 norm is
    smallest and largest. They start far outside the ball, so that the chain's own clip has to act.
    """
    balls = [event for event in events if isinstance(event, NormBound)]
    if not balls:
        raise UsageError(
            "--canary message: the chain does not clip, so that there are no extreme messages; "
            "expected a clip in --defense, or another canary"
        )
    middle = parameters if balls[-1].of == "update" else np.zeros_like(parameters)
    for direction in (np.eye(parameters.size)[0], np.ones(parameters.size)):
        far = direction / np.linalg.norm(direction) * balls[-1].norm * _FAR
        yield ModelCanary(
            name="message",
            unit="client",
            models=np.stack([middle - far, middle + far]),
            about=f"two models at opposite ends of the L{balls[-1].ord:g} ball of radius {balls[-1].norm:g}",
        )


@cache
def _patterns(width: int) -> Bools:
    """All click patterns of a list of some documents, bool (2^width, k)."""
    return read_only(patterns_as_clicks(np.arange(1 << width), LIST_LENGTH), np.bool_)


def _batches(sizes: Ints) -> Iterator[slice]:
    """Slices of consecutive queries with about `_AT_ONCE` patterns in all, given each query's number."""
    before = (np.cumsum(sizes) - sizes) // _AT_ONCE
    firsts = np.flatnonzero(np.diff(before, prepend=-1)).tolist()
    for first, end in zip(firsts, [*firsts[1:], sizes.size], strict=True):
        yield slice(first, end)


def _places(clicks: Bools) -> str:
    """Clicked places of a list from 1, e.g. `1,3,4`; `none` without a click."""
    return ",".join(str(rank + 1) for rank in np.flatnonzero(clicks)) or "none"


# --- the two points farthest apart -----------------------------------------------------------------

_MORE = 1.0 + 1e-9  # how many times as far is more than rounding


def _first_largest(distances: Floats) -> int:
    return int(np.argmax(distances * _MORE >= distances.max()))


def farthest_pair(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    """Rows (i, j) of (n, P) farther apart than `least` and than any other two; (-1, -1, least) if none are.

    `order` 1 or 2 is that of the norm. Rows are visited from the farthest from their mean on, but for those
    that can be no end of the farthest pair: by the triangle inequality, their distance from the mean, or from
    0, and the largest one sum to no more than the best. The mean is near the middle of most rows; 0 is that
    of models on the sphere of a clip, many of which are as far apart as its ends, up to rounding. Of
    distances that are equal but for rounding the first counts.
    """
    from foltr_audit.kernels.messages import farthest_columns

    nobody = -1, -1, least
    if len(points) < 2:
        return nobody
    away = np.linalg.norm(points - points.mean(axis=0), ord=order, axis=1)
    if 2.0 * away.max() <= least:
        return nobody
    sizes = np.linalg.norm(points, ord=order, axis=1)
    most = np.minimum(away + away.max(), sizes + sizes.max())
    rows = np.argsort(-np.round(away / (away.max() or 1.0), 9), kind="stable")
    columns = np.zeros((points.shape[1] + points.shape[1] % 2, len(points)))
    columns[: points.shape[1]] = points[rows].T
    return farthest_columns(columns, rows, most[rows], order, least, _MORE)


def farthest_flip(points: Floats, order: int, least: float) -> tuple[int, int, float]:
    """The same among rows whose numbers, of 0 .. 2^k - 1, differ in one bit; (n, P) with n = 2^k."""
    best, rows = (-1, -1, least), np.arange(len(points))
    for bit in range(len(points).bit_length() - 1):
        without = rows[rows >> bit & 1 == 0]
        apart = np.linalg.norm(points[without] - points[without | 1 << bit], ord=order, axis=1)
        i = _first_largest(apart)
        if apart[i] > best[2] * _MORE:
            best = int(without[i]), int(without[i]) | 1 << bit, float(apart[i])
    return best
