# %% [markdown]
# # Does a claimed epsilon hold?
#
# An audit asks twice. Accounting proves an epsilon from above; trials with the worst pair of inputs show
# one from below. A claim is false if it lies below what trials show, or below the exact loss of the pair.
# Here are the published defense and Laplace noise that is proven for each message, both at 1.2.

# %%
import foltr_audit as fa

published = fa.published_chain(eps=1.2)
proven = fa.calibrate(1.2, parameters=46, clients=1000, mechanisms=["laplace"]).results[0]["defense"]

# %% [markdown]
# There are two observers: a server that sees each message, and one that sees sums only.

# %%
federation = {
    "data": {"source": "synthetic:mq2007:150"},
    "population": {"clients": 1000},
    "train": {"rounds": 5},
    "audit": {"trials": 1000, "views": ["individual", "aggregate"]},
}
report = fa.audit([fa.Spec(**federation, defense=chain) for chain in (published, proven)])
print(report.summary())

# %% [markdown]
# `holds()` is the answer for a program. The picture shows the claim, the proof and the trials.

# %%
print("all claims hold" if report.holds() else "a claim is false")
report.save("audit_a_claim.svg")
