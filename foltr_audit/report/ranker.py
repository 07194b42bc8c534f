"""A ranker that a federation trains, with the calls that LightGBM, XGBoost and PyTerrier share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from foltr_audit.core.plugins.registry import Chain
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER, NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.settings.fields import AttackFields
from foltr_audit.data.arrays import feature_rows, make_data, name_in_specs
from foltr_audit.data.sources import standardised
from foltr_audit.errors import DataError, UsageError
from foltr_audit.experiments.comparison.alternatives import DEFAULT_ALTERNATIVES
from foltr_audit.experiments.comparison.folder import comparison_folder
from foltr_audit.experiments.comparison.grid import ComparisonGrid
from foltr_audit.experiments.comparison.runner import compare
from foltr_audit.experiments.comparison.workers import Workers
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import Runner, run_plan
from foltr_audit.report.attack import AttackReport
from foltr_audit.report.compare import CompareReport
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.arrays import Floats

if TYPE_CHECKING:
    from foltr_audit.core.plugins import ClickModel, Learner

Rows = tuple[object, object]
"""Features (n, d) and grades (n,)."""


@dataclass(kw_only=True, eq=False)
class FederatedRanker:
    """A ranker that clients of a simulated federation train from their clicks.

    `fit` and `predict` are called as those of `LGBMRanker` and `XGBRanker`: `sklearn.clone` copies it, and
    PyTerrier takes it as `pt.ltr.apply_learned_model(FederatedRanker(), form="ltr")`.

    After `fit` it has `parameters_`, the trained model, float64 (P,); `ndcg_`, its nDCG@10 on the queries of
    `eval_set`, or of `fit` without one; `spec_`, the experiment that trained it, with `data_`, its queries as
    `make_data` holds them; and `n_features_in_`, the number of features.

    Attributes:
        clients: number of clients.
        rounds: number of rounds.
        cohort: number of clients sampled for each round; None for all.
        click_model: how the clients click; informational if none is given.
        defense: chain of defenses, e.g. `fa.published_chain(eps=1.2)`: texts or objects.
        learner: what the clients compute from their clicks.
        ranker: `linear`, or `neural:hidden=H,layers=L`.
        normalise: `zscore`, by the documents of `fit`, or `none`.
        random_state: seed of all random draws, a whole number from 0.

    Example:
        >>> import numpy as np
        >>> import foltr_audit as fa
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
        >>> ranker = fa.FederatedRanker(clients=20, rounds=2).fit(X, y, group=[15] * 20)
        >>> ranker.predict(X).shape
        (300,)
        >>> report = ranker.audit(methods=["map"])
        >>> [round(row.number("auc"), 2) for row in report.results if row["method"] == "map"]
        [1.0]
    """

    clients: int = 1000
    rounds: int = 20
    cohort: int | None = None
    click_model: str | ClickModel | type[ClickModel] = CLICK_MODELS[-1]
    defense: Chain = NO_DEFENSE
    learner: str | Learner | type[Learner] = LEARNER
    ranker: str = "linear"
    normalise: str = "zscore"
    random_state: int = 1

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change arguments; `fit` uses them.

        Raises:
            UsageError: an unknown argument.
        """
        for name, value in params.items():
            if name not in (known := self.get_params()):
                raise UsageError(f"set_params: unknown {name!r}; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    @names_arguments
    def fit(
        self,
        X: object,
        y: object,
        *,
        group: object = None,
        qid: object = None,
        eval_set: Sequence[Rows] | None = None,
        eval_group: Sequence[object] | None = None,
        eval_qid: Sequence[object] | None = None,
    ) -> Self:
        """Train by the clicks of simulated clients, who search the queries of `X`.

        Args:
            X: features, (n, d): an array, a sparse matrix of SciPy, or a data frame.
            y: relevance grades, whole numbers from 0 to 31, (n,).
            group: number of documents of each query; the rows of a query stand together.
            qid: the query of each row, (n,), in place of `group`.
            eval_set: one pair (X, y): the queries on which `ndcg_` is measured and which `audit` attacks;
                None for those of `fit`.
            eval_group: one `group`, of `eval_set`.
            eval_qid: one `qid`, of `eval_set`.

        Raises:
            DataError: shapes that do not fit, or values as of `make_data`.
            UsageError: neither or both of `group` and `qid`, or a setting that cannot be run.
        """
        if self.normalise not in ("zscore", "none"):
            raise UsageError(
                f"normalise: {self.normalise}; expected zscore or none, which predict can repeat"
            )
        if eval_set is None and not (eval_group is None and eval_qid is None):
            raise UsageError("eval_set: missing; expected it with eval_group and eval_qid")
        train = (X, y, _queries("", X, group, qid))
        held_out = train
        if eval_set is not None:
            [(other, grades)] = _one("eval_set", eval_set)
            groups = [None] if eval_group is None else _one("eval_group", eval_group)
            qids = [None] if eval_qid is None else _one("eval_qid", eval_qid)
            held_out = (other, grades, _queries("eval_", other, groups[0], qids[0]))
        data = make_data(*train, vali=held_out, test=held_out, normalise=self.normalise)
        spec = Spec.parse(
            {
                "seed": self.random_state,
                "data": DataSpec.of(data),
                "defense": self.defense,
                "population": {"clients": self.clients, "cohort": self.cohort},
                "train": {
                    "learner": self.learner,
                    "ranker": self.ranker,
                    "rounds": self.rounds,
                    "click_model": self.click_model,
                },
            },
            "",
            {"seed": "random_state"},
        )
        trained = Runner(data=data).run(spec).trained
        self.data_, self.spec_, self.n_features_in_ = data, spec, data.n_features
        self.parameters_, self.ndcg_ = trained.parameters, trained.ndcg
        return self

    @names_arguments
    def predict(self, X: object) -> Floats:
        """The scores of documents (n, d), float64 (n,): a higher one ranks first.

        Raises:
            UsageError: it is not trained.
            DataError: another number of features than in `fit`, or values as of `make_data`.
        """
        spec, data = self._trained("predict"), self.data_
        features = feature_rows(X, spec.data)
        if features.shape[1] != data.n_features:
            raise DataError(f"X: {features.shape[1]} features; expected {data.n_features}, as in fit")
        if data.scale is not None:
            features[:] = standardised(features, *data.scale)
        return make_ranker(spec.train.ranker, data.n_features).score(self.parameters_, features)

    @names_arguments
    def audit(self, **attack: Unpack[AttackFields]) -> AttackReport:
        """Which clicks the server reads from the messages of clients that start from the trained model.

        Args:
            attack: fields of `AttackSpec`, e.g. `methods=["map"]` (without it the strong attacks run) or
                `min_documents=5`. The clients click as in training.

        Raises:
            UsageError: it is not trained, or a value that cannot be run.
        """
        plan = Plan((self._attacked("audit", attack),))
        return AttackReport.of(plan, run_plan(plan, None, Runner(data=self.data_)))

    @names_arguments
    def report(
        self,
        *,
        eps: Sequence[float] = (1.2,),
        defenses: Sequence[Chain] = DEFAULT_ALTERNATIVES,
        runs: int = 3,
        **attack: Unpack[AttackFields],
    ) -> CompareReport:
        """Which defense this federation should use: its own one, and others, over the same data.

        Takes minutes. Of the result, `save("report.html")` writes the page.

        Args:
            eps: claims of the defenses that have one.
            defenses: what to compare with its own one, as `--defense` of `compare`.
            runs: number of repetitions.
            attack: fields of `AttackSpec`, as for `audit`.

        Raises:
            UsageError: it is not trained, or a value that cannot be run.
        """
        alone = ComparisonGrid.of_spec(self._attacked("report", attack))
        asked = {**alone.table(), "eps": [*eps], "defenses": [*alone.defenses, *defenses], "runs": runs}
        grid = ComparisonGrid.parse(asked)
        name_in_specs(self.data_)
        with comparison_folder(None) as folder:
            return CompareReport.of(folder, compare(grid, folder, Workers(jobs=1)))

    def _attacked(self, call: str, attack: AttackFields) -> Spec:
        """The experiment that trained it, with an attack on the queries that it is measured on."""
        spec = self._trained(call)
        own = {"click_models": [spec.train.click_model], "on": ["test"]}
        return Spec.parse({**spec.table(), "attack": {**own, **attack}}, "")

    def _trained(self, call: str) -> Spec:
        """The experiment that trained it; a `UsageError` that names the call if none did."""
        if not hasattr(self, "spec_"):
            raise UsageError(f"{call}: the ranker is not trained; expected fit(X, y, group=...) before")
        return self.spec_


def _one(name: str, given: Sequence[Any]) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 1:
        raise UsageError(f"{name}: expected a list with one element")
    return given


def _queries(prefix: str, X: Any, group: object, qid: object) -> object:
    """The query of each row, of which one of two arguments tells."""
    if (group is None) == (qid is None):
        problem = "missing" if group is None else f"given with {prefix}qid"
        raise UsageError(f"{prefix}group: {problem}; expected one of {prefix}group and {prefix}qid")
    if group is None:
        return qid
    sizes = np.asarray(group)
    if sizes.ndim != 1 or not np.issubdtype(sizes.dtype, np.integer) or (sizes < 1).any():
        raise DataError(
            f"{prefix}group: expected the number of documents of each query, whole numbers from 1"
        )
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if sizes.sum() != rows:
        raise DataError(f"{prefix}group: {sizes.sum()} documents in all; expected {rows}, the rows of X")
    return np.repeat(np.arange(sizes.size), sizes)
