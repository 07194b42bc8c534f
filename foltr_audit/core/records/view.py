"""The view of one observer, and the answer of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.rankers import FirstLayer, Ranker, known_ranker, make_ranker
from foltr_audit.errors import PluginError, message_of
from foltr_audit.privacy.events import Ball, ClickLaw
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints, freeze, read_only, read_only_features
from foltr_audit.utils.plugin_failures import plugin_failure

if TYPE_CHECKING:
    from foltr_audit.core.plugins.client_step import ClientStep


Probabilities = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClickBelief:
    """A cascade click model, and the distribution of grades at each position.

    Grades of different positions are assumed independent. Clicks on a list of unknown grades then also follow
    a cascade, whose probabilities depend on the position.

    Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3 (the cascade).

    Attributes:
        click: P(click | grade), float64 (G,).
        stop: P(stop | click, grade), float64 (G,).
        grades: P(grade | position), float64 (k, G).
    """

    click: Floats
    stop: Floats
    grades: Floats

    def __post_init__(self) -> None:
        freeze(self, click=np.float64, stop=np.float64, grades=np.float64)

    def by_position(self, k: int) -> Probabilities:
        """P(click | examined) and P(stop | clicked) at k positions with unknown grades, each (k,).

        Positions after the last row of `grades` use that row.
        """
        grades = self.grades[np.minimum(np.arange(k), len(self.grades) - 1)]
        click = np.einsum("kg,g->k", grades, self.click)
        both = np.einsum("kg,g->k", grades, self.click * self.stop)
        return click, np.divide(both, click, out=np.zeros_like(click), where=click > 0)

    def by_grade(self, labels: Ints) -> Probabilities:
        """The same for documents with known grades (..., k), each (..., k); 0 at the padding, grade -1."""
        grade = np.clip(labels, 0, self.click.size - 1)
        return np.where(labels >= 0, self.click[grade], 0.0), np.where(labels >= 0, self.stop[grade], 0.0)


def checked_updates(step: ClientStep, model: Floats, features: Features, clicks: Floats) -> Floats:
    """The updates (H, P) of click patterns (H, L) on a list with rows (L, d), from a global model (P,)."""
    if not len(clicks):
        return np.zeros((0, model.size))
    return _called(step, "an update", step.updates, model, features, clicks, shape=(len(clicks), model.size))


def checked_slopes(step: ClientStep, model: Floats, features: Features, clicks: Floats) -> Floats:
    """Derivatives (L, P) of the update by each relaxed click at clicks (L,); raises as `checked_updates`."""
    return _called(step, "a slope", step.slopes, model, features, clicks, shape=(len(clicks), model.size))


def _called(
    step: ClientStep,
    what: str,
    function: Callable[..., Floats],
    *given: Floats | Features,
    shape: tuple[int, ...],
) -> Floats:
    """What the user's code makes of copies of some arrays, which it may change."""
    who = f"client step {step.text}"
    try:
        found = np.asarray(function(*(np.array(one, dtype=np.float64) for one in given)), dtype=np.float64)
    except PluginError:
        raise
    except Exception as error:
        raised = f"{who} raised {type(error).__name__}: {message_of(error)}"
        raise (plugin_failure(error) or PluginError(raised)) from error
    if found.shape != shape:
        rows = len(shape) - 1  # of several updates, the shape of one is named
        raise PluginError(f"{who} gave {what} of shape {found.shape[rows:]}; expected {shape[rows:]}")
    if not np.all(np.isfinite(found)):
        raise PluginError(f"{who} gave {what} with a number that is not finite")
    return found


def effects_of_clicks(step: ClientStep, model: Floats, features: Features) -> tuple[Floats, Floats]:
    """The update without clicks (P,), and by how much a single click on each document changes it (L, P).

    Exact where an update is linear in the clicks, as for a step of gradient descent on a sum over clicks.
    """
    L = len(features)
    rows = checked_updates(step, model, features, np.concatenate([np.zeros((1, L)), np.eye(L)]))
    return rows[0], rows[1:] - rows[0]


def checked_scores(step: ClientStep, model: Floats, features: Features) -> Floats:
    """Scores (L,) of documents (L, d) under a model (P,)."""
    return _called(step, "scores", step.scores, model, features, shape=(len(features),))


class RoundMembers(NamedTuple):
    """The clients in the sum of one round.

    Attributes:
        clients: their numbers, below the number N of clients that are seen at all, int64 (n,).
        weights: how much the update of each counts in the sum, float64 (n,); 1 where all count the same.
    """

    clients: Ints
    weights: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Participation:
    """Who took part in each of R rounds, which a server of secure aggregation knows.

    Attributes:
        clients: number N of clients.
        rounds: the members of each round's sum.
    """

    clients: int
    rounds: tuple[RoundMembers, ...]

    @property
    def matrix(self) -> Floats:
        """The weight of each client in each sum, float64 (R, N); 0 where it did not take part."""
        out = np.zeros((len(self.rounds), self.clients))
        for row, members in zip(out, self.rounds, strict=True):
            np.add.at(row, members.clients, members.weights)
        return out


class ParticipantEstimates(NamedTuple):
    """What an attack says of each of N clients.

    Attributes:
        updates: its mean update, float64 (N, P).
        intents: how much speaks for each intent, the largest for the one that is named, float64 (N, I); None
            if the attack does not know.
    """

    updates: Floats
    intents: Floats | None = None


KNOWLEDGE = {
    "features": "feature rows of the shown documents",
    "shown": "which documents each list held",
    "order": "the order that they were shown in",
    "query": "which query each list answers",
    "candidates": "feature rows of all candidate documents of a query",
    "relevance": "relevance grades of the shown documents",
    "intents": "their grades under each intent",
    "interactions": "number of interactions behind each message",
    "lists": "whether lists are sampled or deterministic",
    "learning_rate": "the clients' step size",
    "pairs": "which documents form pairs in PDGD",
    "normaliser": "what PDGD's Plackett-Luce normaliser sums over",
    "rank_with": "which model ranks the lists of a round: the clients' own, or the global one",
    "clip": "the ball that local models are kept in",
    "sigma": "the scale of the perturbations that clients try",
    "metric": "the online metric that clients send",
    "noise": "the law of the noise in a message, and of randomised clicks",
    "click_model": "how users click, given relevance",
}
"""What an observer may know in addition to the messages; each item can be hidden."""

RESOLUTION = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-50}
"""Bound on the relative error of a number by its format; of float64 from the client's arithmetic."""


STEP_FACTS = frozenset({"learning_rate", "pairs", "normaliser"})
"""Knowledge that a client step stands for; an observer without it cannot compute the step."""


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What an observer knows in addition to the messages; None or False if unknown. See `KNOWLEDGE`.

    Attributes:
        features, shown, order, query, candidates, relevance, intents: whether the observer has these.
        ranker: text of the ranker, e.g. `linear`.
        interactions: interactions B behind each message.
        lists: `sampled` from Plackett-Luce or `deterministic`.
        learning_rate, pairs, normaliser: settings of PDGD.
        rank_with: the model that ranks the lists of a round, `local` or `global`.
        clip: the ball to which local models are clipped; None also without a clip.
        clip_without_pairs: whether the clip also acts after an interaction without pairs.
        sigma: standard deviation of the perturbations of FOLtR-ES.
        metric: its online metric, `maxrr` or `dcg`.
        antithetic: whether the second half of its interactions uses the mirrored perturbation.
        perturbation: generator of the perturbations of FOLtR-ES from seeds, `foltr-audit` or
            `numpy-randomstate`; None for an unknown one, whose perturbations cannot be computed from the
            seeds.
        noise: the noise law of a message, e.g. `gamma-share:n=1000,scale=2.5`; for a message of metrics, the
            law of each metric, e.g. `metric-rr:p=0.25`; or `none`.
        click_law: how clients randomise the clicks that they learn from; None if they do not.
        number_format: `bfloat16`, `float16`, `float32` or `float64`, the number format of messages.
        feature_format: the same for the features with which clients learn.
        encoding_error: largest error of a number of a message from its encoding as an integer.
        click_model: name of the click model.
        belief: the probabilities of the click model, if it is a cascade.
        client_step: what a client computes from a list and its clicks, where it is not PDGD.
        update_clip: the L2 ball to which whole updates are clipped; None also without a clip.
    """

    features: bool = True
    shown: bool = True
    order: bool = True
    query: bool = True
    candidates: bool = False
    relevance: bool = False
    intents: bool = False
    ranker: str = "linear"
    interactions: int | None = None
    lists: str | None = None
    learning_rate: float | None = None
    pairs: str | None = None
    normaliser: str | None = None
    rank_with: str | None = "local"
    clip: Ball | None = None
    clip_without_pairs: bool = True
    sigma: float | None = None
    metric: str | None = None
    antithetic: bool = True
    perturbation: str | None = "foltr-audit"
    noise: str | None = None
    click_law: ClickLaw | None = None
    number_format: str = "float32"
    feature_format: str = "float32"
    encoding_error: float = 0.0
    click_model: str | None = None
    belief: ClickBelief | None = None
    client_step: ClientStep | None = None
    update_clip: Ball | None = None

    def has(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False

    @property
    def resolution(self) -> float:
        """Bound on the relative error of a number in a message, from rounding and the client's arithmetic."""
        return RESOLUTION[self.number_format]

    def having(self, **more: object) -> Knowledge:
        return replace(self, **more)  # type: ignore[arg-type]

    def without(self, hidden: frozenset[str]) -> Knowledge:
        """The same observer without these items (names of `KNOWLEDGE`); itself without any."""
        if not hidden:
            return self
        lost: dict[str, object] = {
            name: False if isinstance(getattr(self, name), bool) else None for name in hidden
        }
        if "click_model" in hidden:
            lost["belief"] = None
        if "noise" in hidden:
            lost["click_law"] = None
        if "clip" in hidden:
            lost["update_clip"] = None
        if hidden & STEP_FACTS:
            lost["client_step"] = None
        if "query" in hidden:  # without the query an observer knows nothing about its documents
            lost |= dict.fromkeys(("shown", "order", "candidates", "relevance", "intents"), False)
        if "relevance" in hidden:
            lost["intents"] = False
        return replace(self, **lost)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """All candidate documents of the queries of a view.

    Attributes:
        features: rows of whole data sets, (documents, d).
        offsets: int64 (queries + 1,); query q owns rows offsets[q] .. offsets[q+1]-1.
        query: the query of each list, int64 (n, B), -1 without a list.
    """

    features: Features
    offsets: Ints
    query: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_only_features(self.features))
        freeze(self, offsets=np.int64, query=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Messages of one kind, as one observer sees them, without the true clicks.

    n messages with up to B interactions each, lists of up to k documents, P parameters, d features.

    Attributes:
        observer: `individual` (each message) or `aggregate` (sums over several clients).
        kind: `model`, `update`, `es` (mean online metrics at perturbed models) or `clicks`.
        parameters: the global model each message started from, float64 (n, P).
        messages: float64. Kinds `model` and `update`: (n, P). Kind `es`: (n, V), the mean over the first half
            of the interactions (rounded up) and, if antithetic, the mean over the others, 0 if there are
            none. Kind `clicks`: (n, B k), 1 where the server saw a click.
        seeds: of kind `es`, the seed of each client's perturbation, uint64 (n,).
        shown: position of each shown document inside its query, int64 (n, B, k), padded with -1.
        features: their feature rows, float32 or float64 (n, B, k, d), zero at the padding.
        candidates: all candidates of each list's query, if the observer has them.
        labels: grade of each shown document, int64 (n, B, k), -1 at the padding, if the observer has them.
        intent_labels: its grade under each of I intents, int64 (n, B, k, I), if the observer has them.
        clients: number of clients whose updates each message sums, int64 (n,); 1 by default.
        senders: of sums, which client each list belongs to, int64 (n, B), ascending; all clients start from
            the global model and weigh the same. None where a message is one client's, or weights differ.
        knowledge: what else the observer knows.
    """

    observer: str
    kind: str
    parameters: Floats
    messages: Floats
    shown: Ints
    features: Features
    seeds: NDArray[np.uint64] | None = None
    candidates: Candidates | None = None
    labels: Ints | None = None
    intent_labels: Ints | None = None
    clients: Ints = field(default_factory=lambda: np.ones(1, dtype=np.int64))
    senders: Ints | None = None
    knowledge: Knowledge = field(default_factory=Knowledge)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", read_only_features(self.features))
        object.__setattr__(self, "clients", np.broadcast_to(self.clients, (len(self.messages),)))
        freeze(self, parameters=np.float64, messages=np.float64, seeds=np.uint64)
        freeze(
            self, shown=np.int64, labels=np.int64, intent_labels=np.int64, clients=np.int64, senders=np.int64
        )

    def __len__(self) -> int:
        return int(self.messages.shape[0])

    @property
    def width(self) -> int:
        """Number of places up to the last document of any list."""
        return int(np.where(self.is_document, np.arange(1, self.shown.shape[2] + 1), 0).max(initial=0))

    def trimmed(self) -> View:
        """The same view without padding that all lists share."""
        k = max(self.width, min(1, self.shown.shape[2]))
        labels = None if self.labels is None else self.labels[:, :, :k]
        intent_labels = None if self.intent_labels is None else self.intent_labels[:, :, :k]
        return replace(
            self,
            shown=self.shown[:, :, :k],
            features=self.features[:, :, :k],
            labels=labels,
            intent_labels=intent_labels,
        )

    def under(self, intent: int) -> View:
        """The same view with the grades under one intent (from 0) as labels.

        Raises:
            ValueError: the observer does not know these grades.
        """
        if self.intent_labels is None:
            raise ValueError("a view under one intent needs the grades under each intent")
        return replace(self, labels=self.intent_labels[..., intent])

    @property
    def is_document(self) -> Bools:
        """True where a list has a document, False at the padding, shape (n, B, k)."""
        return self.shown >= 0

    @cached_property
    def ranker(self) -> Ranker:
        return make_ranker(self.knowledge.ranker, self.features.shape[3])

    @cached_property
    def feature_resolution(self) -> float:
        """Bound on the relative error of a feature; 0 if clients learn from exactly these numbers."""
        rounded = self.features.dtype == np.float32 and self.knowledge.feature_format == "float64"
        return 2.0**-25 if rounded else 0.0

    @cached_property
    def updates(self) -> Floats:
        """Each message minus the global model, float64 (n, P)."""
        updates = self.messages - self.parameters if self.kind == "model" else self.messages
        return read_only(updates, np.float64)

    @cached_property
    def models(self) -> Floats:
        """Each message as a local model, float64 (n, P)."""
        models = self.messages if self.kind == "model" else self.parameters + self.messages
        return read_only(models, np.float64)

    @cached_property
    def step_effects(self) -> tuple[Floats, Floats]:
        """What the client step does without clicks, (n, P), and what each click adds, (n, B, k, P).

        All lists are taken at the global model. The first is the sum over a message's lists.

        Raises:
            ValueError: the observer knows no client step.
            PluginError: the client step fails.
        """
        step = self.knowledge.client_step
        if step is None:
            raise ValueError("effects of clicks need a client step")
        still, added = (
            np.zeros(self.parameters.shape),
            np.zeros((*self.shown.shape, self.parameters.shape[1])),
        )
        for i, b in zip(*np.nonzero(self.is_document.any(axis=2)), strict=True):
            there = self.is_document[i, b]
            without, each = effects_of_clicks(step, self.parameters[i], self.features[i, b, there])
            still[i] += without
            added[i, b, there] = each
        return read_only(still, np.float64), read_only(added, np.float64)

    @cached_property
    def click_updates(self) -> Floats:
        """Each update less what the client step does without clicks, (n, P); `updates` without a step."""
        if self.knowledge.client_step is None:
            return self.updates
        return read_only(self.updates - self.step_effects[0], np.float64)

    @property
    def first_layer(self) -> FirstLayer | None:
        """Where the first layer lies in a model, by the client step or else the ranker; None without one."""
        step = self.knowledge.client_step
        if step is not None and step.first_layer is not None:
            return step.first_layer
        return self.ranker.first_layer if known_ranker(self.knowledge.ranker) else None

    @cached_property
    def jacobian(self) -> Floats:
        """`d f / d theta` of each shown document at the global model, (n, B, k, P), 0 at the padding.

        With a client step: what a click on the document adds to the update.
        """
        if self.knowledge.client_step is not None:
            return self.step_effects[1]
        rows = self.ranker.jacobian(self.parameters[:, np.newaxis], self.features)
        return read_only(np.where(self.is_document[..., np.newaxis], rows, 0.0), np.float64)

    @cached_property
    def columns(self) -> Floats:
        """The Jacobian as one column per shown document of a message, (n, P, B k)."""
        n, B, k, P = self.jacobian.shape
        return read_only(self.jacobian.reshape(n, B * k, P).transpose(0, 2, 1), np.float64)

    @cached_property
    def score_changes(self) -> Floats:
        """`f'(d) - f(d)` for each shown document, float64 (n, B, k)."""
        if self.knowledge.ranker == "linear" and self.knowledge.client_step is None:
            return read_only(np.einsum("nbkp,np->nbk", self.jacobian, self.updates), np.float64)
        after = self._scored(self.models)
        return read_only(np.where(self.is_document, after - self.scores_before, 0.0), np.float64)

    @cached_property
    def scores_before(self) -> Floats:
        """`f(d)` under the global model for each shown document, float64 (n, B, k)."""
        return read_only(np.where(self.is_document, self._scored(self.parameters), 0.0), np.float64)

    def _scored(self, models: Floats) -> Floats:
        """Scores (n, B, k) of the shown documents under models (n, P): by the client step if it gives any."""
        step = self.knowledge.client_step
        if step is None or not step.gives_scores:
            return self.ranker.score(models[:, np.newaxis], self.features)
        scores = np.zeros(self.shown.shape)
        for i, b in zip(*np.nonzero(self.is_document.any(axis=2)), strict=True):
            there = self.is_document[i, b]
            scores[i, b, there] = checked_scores(step, models[i], self.features[i, b, there])
        return scores


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """An attack's answer.

    Attributes:
        scores: a higher score means a more likely click, float64 (n, B, k); ignored at the padding.
        guess: the documents that the attack declares clicked, bool (n, B, k); False at the padding.
        any_click: a higher value means that a list more likely has a click, float64 (n, B); None for the
            largest score of each list.
        answer: what a task other than `clicks` asks for, float64 with a row for each message: for `query` the
            probability of each list, (n, B); for `intent` and `client` see `IntentAttack` and `LinkAttack`.
        patterns: probability of each click pattern of a list, float64 (n, B, 2^k'), k' <= k; bit i of a
            pattern is the click on place i, and rows sum to 1. None if an attack does not compute it.
    """

    scores: Floats
    guess: Bools
    any_click: Floats | None = None
    answer: Floats | None = None
    patterns: Floats | None = None

    @classmethod
    def about(cls, view: View, answer: Floats) -> Inference:
        """An answer to another question than clicks: every document has the score 0."""
        return cls(
            scores=np.zeros(view.shown.shape), guess=np.zeros(view.shown.shape, np.bool_), answer=answer
        )

    def widened(self, k: int) -> Inference:
        """The same answer for lists that are padded to k places."""
        more = ((0, 0), (0, 0), (0, k - self.guess.shape[2]))
        return replace(self, scores=np.pad(self.scores, more), guess=np.pad(self.guess, more))

    def __post_init__(self) -> None:
        freeze(self, scores=np.float64, guess=np.bool_)
        freeze(self, any_click=np.float64, answer=np.float64, patterns=np.float64)


A = TypeVar("A")


def without_padding(
    infer: Callable[[A, View, np.random.Generator], Inference],
) -> Callable[[A, View, np.random.Generator], Inference]:
    """Let an attack infer from a view without places that no list fills, which its answer has again."""

    @wraps(infer)
    def inferred(self: A, view: View, rng: np.random.Generator) -> Inference:
        return infer(self, view.trimmed(), rng).widened(view.shown.shape[2])

    return inferred
