# %% [markdown]
# # A federated ranker beside LightGBM
#
# `fa.FederatedRanker` has the calls of `LGBMRanker`: the same arrays, the same group sizes. Here are rows of
# a synthetic collection; put your own in their place. LightGBM is not installed with foltr-audit:
# `pip install lightgbm`.

# %%
import numpy as np
from lightgbm import LGBMRanker
from sklearn.base import clone
from sklearn.metrics import ndcg_score

import foltr_audit as fa

data = fa.load_data("synthetic:mq2007:300", normalise="none")
X, y, group = data.train.features, data.train.labels, data.train.lengths
X_test, y_test, group_test = data.test.features, data.test.labels, data.test.lengths

# %% [markdown]
# LightGBM sees the grades of the documents. The federated ranker sees only the clicks of its clients, and
# each client keeps its own. nDCG@10 is the mean over all queries; one without relevant documents counts as 0.

# %%
other = {"eval_set": [(X_test, y_test)], "eval_group": [group_test]}
central = LGBMRanker(n_estimators=50, num_threads=1, verbose=-1).fit(X, y, group=group)
federated = fa.FederatedRanker(clients=1000, rounds=10).fit(X, y, group=group, **other)

ends = np.cumsum(group_test)[:-1]
for name, ranker in (("LightGBM", central), ("federated", federated)):
    queries = zip(np.split(y_test, ends), np.split(ranker.predict(X_test), ends), strict=True)
    ndcg = [ndcg_score([2.0**grades - 1], [scores], k=10) * grades.any() for grades, scores in queries]
    print(f"{name:10} nDCG@10 {np.mean(ndcg):.3f}")

# %% [markdown]
# What does the server learn about the clients? Without a defense, every click.

# %%
print(federated.audit(methods=["map"]).summary())

# %% [markdown]
# A defense is one argument; `clone` copies the rest. Noise on each message hides the clicks, and the ranking
# pays for it. `federated.report().save("report.html")` compares this federation with published and proven
# defenses, and writes the page that says which one to use; that takes minutes.

# %%
noise = fa.calibrate(1.2, parameters=X.shape[1], clients=1000, mechanisms=["laplace"]).results[0]["defense"]
private = clone(federated).set_params(defense=noise).fit(X, y, group=group, **other)
report = private.audit(methods=["map"])
print(report.summary())
report.save("own_ranker.svg")
