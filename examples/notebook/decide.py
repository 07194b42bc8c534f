# %% [markdown]
# # Which defense to use?
#
# `compare` trains and attacks several defenses. `proven-MECHANISM` is the least noise that proves the
# epsilon. The first line says what to use, and for which server.

# %%
import foltr_audit as fa

federation = {
    "data": {"source": "synthetic:mq2007:200"},
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
# The table has the chain of each defense. Limits then guard the choice, with their intervals: the AUC of the
# best attack may be at most .6, and at most .05 of nDCG@10 may be lost.

# %%
winner = report.to_frame().filter(alternative="proven-skellam+secure-aggregation")
spec = fa.Spec(**federation, attack={"click_models": ["informational"]}, defense=winner["defense"][0])
print(fa.check({"max_attack_auc": 0.6, "max_ndcg_loss": 0.05}, spec).summary())

# %% [markdown]
# In the picture, the first panel shows what messages add to a guess, the last how well is ranked. In a
# notebook, `report.plot()` shows it, and `report.page()` everything that was found.

# %%
report.save("decide.svg")
