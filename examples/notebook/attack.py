# %% [markdown]
# # Which clicks does a server read?
#
# A thousand clients train a ranker in five rounds. Each message carries the noise of the published defense,
# at a claimed epsilon of 1.2. The server knows the documents and sees single messages.

# %%
import foltr_audit as fa

spec = fa.Spec(
    data={"source": "synthetic:mq2007:150"},
    population={"clients": 1000},
    train={"rounds": 5},
    defense=fa.published_chain(eps=1.2),
)

# %% [markdown]
# `olsr` and `lad` fit the message to the documents. `map` weighs every pattern of clicks by the law of the
# noise. The report sets them beside guesses that read no message.

# %%
report = fa.attack(spec, methods=["olsr", "lad", "map"], click_models="informational")
print(report.summary())

# %% [markdown]
# A report is a table as well: `to_frame()` gives a data frame of polars.

# %%
best = (
    report.to_frame()
    .sort("auc", descending=True)
    .select("method", "recall", "auc", "guess_auc", "above_guess")
)
print(best.head(3))

# %% [markdown]
# And a picture: only what lies above the best guess comes from the message.

# %%
report.save("attack.svg")
