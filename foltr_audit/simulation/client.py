"""What the clients of a round do before anything leaves them: rank, click, learn, for a whole cohort at once.

Where every rule is declared (a built-in ranker, a cascade click model, FPDGD, at most a norm ball after
a step), one kernel plays all local steps. Otherwise the same steps go through arrays, and any plug-in may
act on them; both ways draw the same random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.click_models import ClickModelMixture, declared_tables
from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import ClickModel, ModelLearner, RoundContext
from foltr_audit.core.plugins.answers import clicks_of, step_of
from foltr_audit.core.rankers import Ranker
from foltr_audit.core.ranking_metrics import LIST_LENGTH, ideal_dcg
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.dataset import QueryOrigin, joined
from foltr_audit.core.records.population import QueryAssignment
from foltr_audit.core.shown_lists import TIES, lists_in_score_order, tie_stream
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Bools, Features, Floats, Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.local_steps import KernelDocuments, LocalStepRules, StepScratch

_MOST_GRADES = 128  # over all click models: kernels read grades as int8


@dataclass(frozen=True, kw_only=True, eq=False)
class ClientData:
    """A data set as clients see it, with the grades that each click model and intent goes by.

    Clients that hold documents of some grades only have shorter queries. These follow the whole ones in
    `data`, so that one index names what any client searches.

    Attributes:
        data: the queries of a data set, then those with documents of certain grades only.
        origin: part and position that the queries and documents of `data` come from.
        holdings: grades of the documents that a client may hold, None for all; the first is None.
        places: query of `data` for each query of that data set under each holding, int64 (holdings, queries),
            -1 where no document is left.
        models: the click models.
        intents: number of intents that clicks depend on; 1 where relevance under any intent counts.
        largest_label: highest grade of the collection.
        trained: the same queries with the features on which clients train, for one interaction of a round
            after the other, again from the first after the last; empty if they train on those of `data`.
        promoted: document of `data` that has the highest grade under the last click model, where all others
            have the lowest; None if that model reads the grades as they are.
    """

    data: Dataset
    origin: QueryOrigin
    holdings: tuple[tuple[int, ...] | None, ...]
    places: Ints
    models: tuple[ClickModel, ...]
    intents: int
    largest_label: int
    trained: tuple[Dataset, ...] = ()
    promoted: int | None = None

    def trained_features(self, queries: Ints, shown: Ints, steps: Ints) -> Features:
        """Features on which clients train of lists (I, k) for queries (I,), (I, k, d), 0 at the padding."""
        every = self.trained or (self.data,)
        out = every[0].shown_features(queries, shown)
        for number, data in enumerate(every[1:], start=1):
            here = steps % len(every) == number
            out[here] = data.shown_features(queries[here], shown[here])
        return out

    @classmethod
    def of(
        cls,
        whole: Dataset,
        origin: QueryOrigin,
        models: Sequence[ClickModel],
        *,
        largest_label: int,
        intents: int = 1,
        holdings: Sequence[tuple[int, ...]] = (),
    ) -> ClientData:
        """Make the data of clients with these `holdings`, sets of grades.

        Raises:
            UsageError: no document has a grade of a set, users hold other documents than those that they
                were shown, or there are too many click models.
        """
        if holdings and whole.users is not None:
            raise UsageError(
                "scenario: clients hold documents of some grades, but the data are lists of real users; "
                "expected a scenario in which clients hold all"
            )
        if len(models) * (largest_label + 1) > _MOST_GRADES:
            raise UsageError(
                f"scenario: {len(models)} click models for labels up to {largest_label}; "
                f"expected {_MOST_GRADES // (largest_label + 1)} at most"
            )
        query = np.repeat(np.arange(whole.n_queries), whole.lengths)
        held, searched = [], [np.arange(whole.n_queries)]
        places = np.full((1 + len(holdings), whole.n_queries), -1)
        places[0], first = searched[0], whole.n_queries
        for row, grades in zip(places[1:], holdings, strict=True):
            rows = np.flatnonzero(np.isin(whole.labels, grades))
            if not rows.size:
                words = " or ".join(map(str, grades))
                raise UsageError(f"scenario: no document has grade {words}; expected one at least")
            held.append(rows)
            searched.append(np.unique(query[rows]))
            row[searched[-1]] = first + np.arange(searched[-1].size)
            first += searched[-1].size
        data = whole
        if held:
            data = joined([whole, *(whole.of_rows(rows) for rows in held)])
            every, inside = np.concatenate(searched), np.arange(query.size) - whole.offsets[query]
            documents = np.concatenate([inside, *(inside[rows] for rows in held)])
            origin = QueryOrigin(part=origin.part[every], query=origin.query[every], document=documents)
        return cls(
            data=data,
            origin=origin,
            holdings=(None, *holdings),
            places=places,
            models=tuple(models),
            intents=intents,
            largest_label=largest_label,
        )

    @classmethod
    def alike(cls, data: Dataset, click_model: ClickModel, largest_label: int) -> ClientData:
        """A data set whose documents all clients hold, with one click model."""
        return cls.of(data, QueryOrigin.of_part(0, data), (click_model,), largest_label=largest_label)

    @property
    def click_model(self) -> ClickModel:
        return self.models[0] if len(self.models) == 1 else ClickModelMixture(models=self.models)

    @cached_property
    def grades(self) -> NDArray[np.int8]:
        """Grades that users click by, for one way after the other, int8 (ways documents,).

        Way `m I + i` is click model m under intent i of I. Grades of model m are shifted by a multiple of m:
        see `ClickModelMixture`.
        """
        ways = [self.judged[intent].labels for intent in range(self.intents)]
        stride = self.largest_label + 1
        every = [m * stride + labels for m in range(len(self.models)) for labels in ways]
        if self.promoted is not None:
            only = self.largest_label * (np.arange(self.data.n_documents) == self.promoted)
            every[-len(ways) :] = [(len(self.models) - 1) * stride + only] * len(ways)
        return np.concatenate(every).astype(np.int8)

    def lifts(self, ways: Ints) -> Ints:
        """Where the grades of some ways begin in `grades`."""
        return np.ascontiguousarray(ways * self.data.n_documents)

    def clicked_grades(self, queries: Ints, ways: Ints, shown: Ints) -> Ints:
        """Grades of lists (C, k) shown for queries (C,), as the click model reads them, -1 at the padding."""
        first = self.lifts(ways) + self.data.offsets[queries]
        rows = first[:, np.newaxis] + np.maximum(shown, 0)
        return np.where(shown >= 0, self.grades[rows].astype(np.int64), -1)

    @cached_property
    def judged(self) -> list[Dataset]:
        """The data under each intent."""
        return [self.data] if self.intents == 1 else [self.data.under(i) for i in range(self.intents)]

    @cached_property
    def ideals(self) -> list[Floats]:
        """Ideal DCG of every query under each intent, (queries,) each."""
        return [ideal_dcg(data) for data in self.judged]


@dataclass(frozen=True, kw_only=True)
class ClientRules:
    """Everything about clients that stays the same between interactions.

    Attributes:
        ranker, learner, chain, click_model: what they rank, learn, defend and click with.
        largest_label: highest grade of the collection.
        sampled: lists are sampled from Plackett-Luce; otherwise they follow the scores.
        acts_without_pairs: the step stage also acts after an interaction without pairs.
    """

    ranker: Ranker
    learner: ModelLearner
    chain: DefenseChain
    click_model: ClickModel
    largest_label: int
    sampled: bool
    acts_without_pairs: bool

    def kernel_rules(self) -> LocalStepRules | None:
        """These rules for the kernel; None if they contain code of a plug-in, which it cannot call."""
        from foltr_audit.kernels.local_steps import LocalStepRules

        learner, model, steps = self.learner, self.click_model, self.chain.links("step")
        tables = declared_tables(model, self.largest_label)
        step = learner.compiled_step
        ball = self.chain.ball
        # The kernel's loop has room for one ball.
        if step is None or tables is None or self.chain.links("click") or (steps and ball is None):
            return None
        ranker = self.ranker if self.ranker.hidden else None
        return LocalStepRules(
            click=tables[0],
            stop=tables[1],
            learning_rate=step.learning_rate,
            candidates=step.setting.normaliser == "candidates",
            only_observed=step.setting.pairs == "last-click+1",
            norm=ball.norm if ball else np.inf,
            order=ball.ord if ball else 2,
            always=self.acts_without_pairs,
            sampled=self.sampled,
            global_lists=learner.ranked_with == "global",
            hidden=ranker.hidden if ranker else None,
            layers=ranker.layers if ranker else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CohortInteractions:
    """The interactions of a cohort of C clients in one round, B each.

    Attributes:
        queries: int64 (C, B), -1 where a client has no more.
        shown: int64 (C, B, k), padded with -1.
        clicks: what the user clicked, bool (C, B, k).
        reported: the clicks after the click stage, which clients learn from, bool (C, B, k).
        clipped: whether the step stage changed the local model, bool (C, B).
    """

    queries: Ints
    shown: Ints
    clicks: Bools
    reported: Bools
    clipped: Bools

    @classmethod
    def joined(
        cls, parts: Sequence[CohortInteractions], order: Ints | slice = slice(None)
    ) -> CohortInteractions:
        """The interactions of several groups of clients as those of one cohort, whose rows are in `order`."""
        if len(parts) == 1:
            return parts[0]
        every = {
            one.name: np.concatenate([getattr(part, one.name) for part in parts])[order]
            for one in fields(cls)
        }
        return cls(**every)


class LocalUpdates(NamedTuple):
    """What the clients (C,) of a cohort have after their local steps.

    Attributes:
        models: after the step stage, float64 (C, P).
        updates: sum of the gradient steps taken, before any defense, float64 (C, P).
        interactions: what they learnt from.
    """

    models: Floats
    updates: Floats
    interactions: CohortInteractions


class ClientSimulator:
    """Clients that search one world under the same rules."""

    def __init__(self, rules: ClientRules, world: ClientData) -> None:
        """Store the rules; kernels are compiled when the first round is played."""
        self.rules = rules
        self.world = world
        self._unused: list[StepScratch] = []  # memory of threads that are done

    def play(self, asked: QueryAssignment, context: RoundContext, given: Ints | None = None) -> LocalUpdates:
        """Play the queries (C, B) of every client, one after the other.

        With `given` lists (C, b, k) the first b interactions show these.
        """
        if self._kernel_rules is not None and given is None and not self.world.trained:
            return self._in_kernel(self._kernel_rules, asked, context)[0]
        queries = asked.queries
        models = np.tile(context.parameters, (queries.shape[0], 1))
        shown = np.full((*queries.shape, LIST_LENGTH), -1, dtype=np.int64)
        clicks = np.zeros(shown.shape, dtype=np.bool_)
        clipped = np.zeros(queries.shape, dtype=np.bool_)
        done = CohortInteractions(
            queries=queries, shown=shown, clicks=clicks, reported=clicks.copy(), clipped=clipped
        )
        local = LocalUpdates(models, np.zeros_like(models), done)
        for step in range(queries.shape[1]):
            rows = np.flatnonzero(queries[:, step] >= 0)
            ready = None if given is None or step >= given.shape[1] else given[rows, step]
            self._step(step, rows, asked.ways[rows, step], context.at(rows), ready, local)
        return local

    def play_in_turns(
        self, asked: QueryAssignment, context: RoundContext, batch: int
    ) -> tuple[Floats, CohortInteractions]:
        """Play the queries (C, B) of clients that take turns, `batch` at once; the model (P,) after the last.

        Those of a turn start at the model that the turns before left, and move it by the sum of their steps.
        """
        if self._kernel_rules is not None and not self.world.trained:
            local, after = self._in_kernel(self._kernel_rules, asked, context, batch)
            return after, local.interactions
        parameters, played = context.parameters, []
        for first in range(0, len(context.clients), batch):
            rows = np.arange(first, min(first + batch, len(context.clients)))
            local = self.play(asked.at(rows), context.at(rows).having(parameters=parameters))
            parameters = parameters + local.updates.sum(axis=0)
            played.append(local.interactions)
        return parameters, CohortInteractions.joined(played)

    @cached_property
    def _kernel_rules(self) -> LocalStepRules | None:
        return self.rules.kernel_rules()

    @cached_property
    def _documents(self) -> KernelDocuments:
        from foltr_audit.kernels.local_steps import KernelDocuments

        return KernelDocuments(self.world.data.features, self.world.grades, self.world.data.offsets)

    def _in_kernel(
        self, rules: LocalStepRules, asked: QueryAssignment, context: RoundContext, batch: int | None = None
    ) -> tuple[LocalUpdates, Floats]:
        """What `play` returns, and the model (P,) after clients that take turns; models of the last."""
        from foltr_audit.kernels import local_steps as kernel

        show, click = context.streams("show"), context.streams(self.rules.click_model.purpose)
        ties = tie_stream(self.world.data, context.streams(TIES))
        codes = show.purpose_code, click.purpose_code
        stream = kernel.StepStreamKeys(context.round, *codes, np.uint64(show.key), ties)
        queries, lifts = np.ascontiguousarray(asked.queries), self.world.lifts(asked.ways)
        clients, after = context.clients, context.parameters
        at_once = clients.size if batch is None else min(batch, clients.size)
        played = kernel.empty_result(queries, after.size, LIST_LENGTH, at_once)
        given = self._documents, rules, stream, queries, lifts, clients, after, played, self._unused
        if batch is None:
            kernel.play_local_steps(*given)
        else:
            after = kernel.play_batches(*given)
        models, updates, shown, clicks, clipped = played
        done = CohortInteractions(
            queries=queries, shown=shown, clicks=clicks, reported=clicks, clipped=clipped
        )
        return LocalUpdates(models, updates, done), after

    def _step(
        self,
        step: int,
        rows: Ints,
        ways: Ints,
        context: RoundContext,
        given: Ints | None,
        local: LocalUpdates,
    ) -> None:
        """One step of the clients in `rows` (n,), who click in these `ways` (n,), written into `local`.

        It shows the `given` lists (n, k), if any; `context` is of these clients alone.
        """
        rules, data, done = self.rules, self.world.data, local.interactions
        queries, models = done.queries[rows, step], local.models[rows]
        if step == 0:
            scores, starts, given = self._first_scores(queries, context, given)
        else:
            scores, starts = rules.ranker.scores(models, data, queries)
        shown = self._show(scores, starts, queries, step, context) if given is None else given
        labels = self.world.clicked_grades(queries, ways, shown)
        streams = context.streams(rules.click_model.purpose)
        clicks = clicks_of(rules.click_model, labels, rules.largest_label, streams, step)
        reported = rules.chain.on_clicks(clicks, shown, step, context)
        if self.world.trained:
            data = self.world.trained[step % len(self.world.trained)]
            scores, starts = rules.ranker.scores(models, data, queries)
        learnt = rules.learner.local_step(
            models, data, queries, scores, starts, shown, reported, rules.ranker
        )
        stepped, moved = step_of(rules.learner, learnt, models)
        # Plug-ins may write into the models that they are given.
        local.updates[rows] += stepped - local.models[rows]
        after, clipped = rules.chain.on_step(stepped, moved | rules.acts_without_pairs, step, context)
        local.models[rows], done.clipped[rows, step] = after, clipped
        done.shown[rows, step], done.clicks[rows, step] = shown, clicks
        done.reported[rows, step] = reported

    def _first_scores(
        self, queries: Ints, context: RoundContext, given: Ints | None
    ) -> tuple[Floats, Ints, Ints | None]:
        """Scores of the first step, flat, `starts` (C + 1,), and the lists (C, k) where they are known.

        Every local model still is the global one, so each query is scored once, whoever asks it.
        """
        distinct, which = np.unique(queries, return_inverse=True)
        everybody = context.parameters[np.newaxis]
        scores, starts = self.rules.ranker.scores(everybody, self.world.data, distinct)
        if given is None and not self.rules.sampled:
            ties = context.streams(TIES)
            given = lists_in_score_order(scores, starts, self.world.data, distinct, ties)[which]
        begins = np.append(0, np.cumsum(np.diff(starts)[which]))
        rows = np.repeat(starts[which] - begins[:-1], np.diff(begins)) + np.arange(begins[-1])
        return scores[rows], begins, given

    def _show(self, scores: Floats, starts: Ints, queries: Ints, step: int, context: RoundContext) -> Ints:
        """Lists (C, k), from the local models' scores unless the global model ranks."""
        from foltr_audit.kernels.plackett_luce import sampled_lists

        # In the first step every local model still is the global one, and its scores are known.
        if self.rules.learner.ranked_with == "global" and step > 0:
            everybody = context.parameters[np.newaxis]
            scores, starts = self.rules.ranker.scores(everybody, self.world.data, queries)
        if not self.rules.sampled:
            return lists_in_score_order(scores, starts, self.world.data, queries, context.streams(TIES))
        streams = context.streams("show")
        return sampled_lists(
            scores,
            starts,
            LIST_LENGTH,
            step * LIST_LENGTH,
            streams.clients,
            streams.round,
            streams.purpose_code,
            np.uint64(streams.key),
        )
