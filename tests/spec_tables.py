"""Tables of valid Specs, as Hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

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
                "source": st.text(min_size=1),
                "fold": st.integers(0, 9),
                "normalise": st.sampled_from(["zscore", "zscore-parts", "query-minmax", "none"]),
            },
        ),
        "population": st.fixed_dictionaries(
            {"clients": st.integers(500, 10**8)}, optional={"cohort": st.integers(1, 500)}
        ),
        "train": st.fixed_dictionaries(
            {},
            optional={
                "learner": _learners,
                "ranker": st.sampled_from(["linear", "neural", "neural:hidden=3"]),
                "rounds": st.integers(1, 10**7),
                "click_model": _click_models,
                "init": st.text(),
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
    },
)
"""Tables of valid Specs; every field may be left out."""
