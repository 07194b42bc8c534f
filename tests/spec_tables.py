"""Tables of valid Specs: one with every field, other values for each, and as Hypothesis draws them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
"""Every text that a file can hold."""

FULL: dict[str, Any] = {
    "schema": "foltr-audit/spec/1",
    "seed": 5,
    "repetition": 2,
    "defense": ["clip:norm=2"],
    "data": {
        "source": "data",
        "fold": 1,
        "normalise": "none",
        "dtype": "float32",
        "intents": "qrels",
        "balance": False,
    },
    "population": {"scenario": "uniform", "clients": 50, "cohort": 20},
    "train": {
        "learner": "fpdgd",
        "ranker": "linear",
        "rounds": 3,
        "click_model": "perfect",
        "init": "model.npy",
        "no_relevant": "zero",
        "evaluate_every": 1,
    },
    "trace": {"message": "model", "dtype": "float32", "embed_features": False, "every": 1},
    "attack": {
        "methods": ["olsr"],
        "click_models": ["perfect"],
        "target": "fresh",
        "on": ["test"],
        "repeats": 2,
        "min_documents": 4,
        "interactions": 1,
        "view": "individual",
        "choices": 10,
        "hide": [],
        "queries": [],
    },
    "audit": {
        "views": ["individual"],
        "units": ["query"],
        "canaries": ["data:worst"],
        "models": ["trained"],
        "claim": 1.5,
        "delta": 0.0,
        "trials": 100,
        "confidence": 0.95,
        "estimator": "auto",
        "score": "auto",
        "messages": 1,
        "drop_out": 0.0,
        "interactions": 1,
        "on": ["test"],
        "min_documents": 10,
    },
}
"""A table with every field of a Spec."""

OTHER: dict[str, Any] = {
    "seed": 6,
    "repetition": 3,
    "defense": ["clip:norm=2.5"],
    "data.source": "data2",
    "data.fold": 2,
    "data.normalise": "zscore",
    "data.dtype": "float64",
    "data.intents": "synthetic:3",
    "data.balance": True,
    "population.clients": 51,
    "population.cohort": 21,
    "train.learner": "fpdgd:interactions=5",
    "train.ranker": "neural:hidden=4",
    "train.rounds": 4,
    "train.click_model": "navigational",
    "train.init": "other.npy",
    "train.no_relevant": "skip",
    "train.evaluate_every": 7,
    "trace.message": "update",
    "trace.dtype": "float64",
    "trace.embed_features": True,
    "trace.every": 3,
    "attack.methods": ["olsr", "max-gain"],
    "attack.click_models": ["informational"],
    "attack.target": "training",
    "attack.on": ["vali"],
    "attack.repeats": 3,
    "attack.min_documents": 5,
    "attack.interactions": 2,
    "attack.view": "aggregate",
    "attack.choices": 3,
    "attack.hide": ["noise"],
    "attack.queries": ["17"],
    "audit.views": ["aggregate", "colluding"],
    "audit.units": ["client"],
    "audit.canaries": ["data:typical"],
    "audit.models": ["first"],
    "audit.claim": 1.25,
    "audit.delta": 1e-6,
    "audit.trials": 200,
    "audit.confidence": 0.9,
    "audit.estimator": "betting",
    "audit.score": "lad",
    "audit.messages": 4,
    "audit.drop_out": 0.25,
    "audit.interactions": 2,
    "audit.on": ["vali"],
    "audit.min_documents": 4,
}
"""Another value for every field of `FULL`."""


_chains = st.lists(
    st.one_of(
        st.just("none"),
        st.floats(1e-300, 1e300).map(lambda norm: f"clip:norm={norm!r}".replace("e+", "e")),
        st.tuples(st.floats(1e-3, 1e18), st.integers(1, 10**18)).map(
            lambda pair: f"gamma-laplace:eps={pair[0]!r},sensitivity={pair[1]}".replace("e+", "e")
        ),
    ),
    max_size=3,
)
_learners = st.builds(
    lambda interactions, rate, pairs, normaliser, clips: (
        f"fpdgd:interactions={interactions},learning_rate={rate!r},pairs={pairs},"
        f"normaliser={normaliser},clip_without_pairs={clips}"
    ),
    st.integers(1, 10_000),
    st.floats(1e-300, 1e300),
    st.sampled_from(["all", "last-click+1"]),
    st.sampled_from(["shown", "candidates"]),
    st.booleans(),
)
_click_models = st.sampled_from(["perfect", "navigational", "informational"])
SPEC_TABLES = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "repetition": st.integers(0, 10**6),
        "defense": _chains,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "source": TEXTS.filter(bool),
                "fold": st.integers(0, 9),
                "normalise": st.sampled_from(["zscore", "zscore-parts", "query-minmax", "none"]),
                "intents": st.sampled_from(["qrels", "synthetic", "synthetic:2"]),
                "balance": st.booleans(),
            },
        ),
        "population": st.fixed_dictionaries(
            {"clients": st.integers(500, 10**8)}, optional={"cohort": st.integers(1, 500)}
        ),
        "train": st.fixed_dictionaries(
            {},
            optional={
                "learner": _learners,
                "ranker": st.sampled_from(["linear", "neural", "neural:hidden=3,layers=2"]),
                "rounds": st.integers(1, 10**7),
                "click_model": _click_models,
                "init": TEXTS,
                "no_relevant": st.sampled_from(["zero", "skip"]),
            },
        ),
        "trace": st.fixed_dictionaries(
            {},
            optional={
                "message": st.sampled_from(["model", "update"]),
                "dtype": st.sampled_from(["float32", "float64"]),
                "embed_features": st.booleans(),
            },
        ),
        "attack": st.fixed_dictionaries(
            {},
            optional={
                "methods": st.lists(
                    st.sampled_from(["olsr", "olsr:tolerance=0", "max-gain", "higher-distance:more_than=4"]),
                    min_size=1,
                ),
                "click_models": st.lists(_click_models, min_size=1),
                "target": st.sampled_from(["fresh", "training"]),
                "on": st.lists(st.sampled_from(["train", "vali", "test"]), min_size=1),
                "repeats": st.integers(1, 100_000),
                "min_documents": st.integers(1, 100),
            },
        ),
        "audit": st.fixed_dictionaries(
            {},
            optional={
                "views": st.lists(st.sampled_from(["individual", "aggregate", "colluding"]), min_size=1),
                "units": st.lists(st.sampled_from(["click", "interaction", "query", "client"]), min_size=1),
                "canaries": st.lists(st.sampled_from(["data:worst", "data:no-click"]), min_size=1),
                "claim": st.floats(1e-3, 1e3),
                "delta": st.floats(0, 0.5),
                "trials": st.integers(20, 10**7),
                "confidence": st.floats(0.6, 0.999),
                "drop_out": st.floats(0, 0.99),
            },
        ),
    },
)
"""Tables of valid Specs; every field may be left out."""
