# %% [markdown]
# # Choose a defense
#
# Which defense to use: compare three, and gate the choice with limits.

# %%
import foltr_audit as fa

federation = {
    "data": {"source": "synthetic:mq2007:150"},
    "population": {"clients": 100},
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

limits = {"max_attack_auc": 0.75}
chain = fa.calibrate(1.2, parameters=46, clients=100, mechanisms=["laplace"]).found[0].defense
spec = fa.Spec(**federation, attack={"click_models": ["informational"]}, defense=chain)
print(fa.check(limits, spec))

# %%
report.save("decide.svg")
