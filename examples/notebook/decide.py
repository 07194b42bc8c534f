# %% [markdown]
# # Which defense to use?
#
# `compare` trains and attacks several defenses. `proven-MECHANISM` is the least noise that proves the
# epsilon. The first line says what to use, and for which server.

# %%
import foltr_audit as fa

federation = {
    "data": {"source": "synthetic:mq2007:150"},
    "population": {"clients": 1000},
    "train": {"rounds": 5},
}
report = fa.compare(
    {
        "defenses": ["published", "proven-laplace", "proven-skellam+secure-aggregation"],
        "eps": [1.2],
        "click_models": ["informational"],
        "runs": 1,
        "audit": False,
        "spec": federation,
    },
    jobs=1,
)
print(report.summary())

# %% [markdown]
# A limit then guards the choice: the AUC of the best attack, with its interval, may be at most .75.

# %%
limits = {"max_attack_auc": 0.75}
chain = fa.calibrate(1.2, parameters=46, clients=1000, mechanisms=["laplace"]).results[0]["defense"]
spec = fa.Spec(**federation, attack={"click_models": ["informational"]}, defense=chain)
print(fa.check(limits, spec).summary())

# %% [markdown]
# In the picture, the first panel shows what messages add to a guess, the last how well is ranked. In a
# notebook, `report.plot()` shows it, and `report.page()` everything that was found.

# %%
report.save("decide.svg")
