# %% [markdown]
# # Read clicks out of single updates
#
# Which clicks does a server read out of single updates, at a claimed epsilon of 1.2?

# %%
import foltr_audit as fa

spec = fa.Spec(
    data={"source": "synthetic:mq2007:150"},
    population={"clients": 100},
    train={"rounds": 5},
    defense=fa.published_chain(eps=1.2),
)
report = fa.attack(spec, methods=["olsr", "lad", "map"], click_models="informational")

print(report.summary())
best = report.to_frame().sort("auc", descending=True).select("method", "precision", "recall", "auc")
print(best.head(3))

# %%
report.save("attack.svg")
