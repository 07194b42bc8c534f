# %% [markdown]
# # Check a claimed epsilon
#
# Does a claimed epsilon hold? A proof from above and trials from below, with and without secure aggregation.

# %%
import foltr_audit as fa

published = fa.published_chain(eps=1.2)
proven = fa.calibrate(1.2, parameters=46, clients=100, mechanisms=["laplace"]).found[0].defense
federation = {
    "data": {"source": "synthetic:mq2007:150"},
    "population": {"clients": 100},
    "train": {"rounds": 5},
    "audit": {"trials": 400, "views": ["individual", "aggregate"]},
}
report = fa.audit([fa.Spec(**federation, defense=chain) for chain in (published, proven)])

print(report.summary())
print("all claims hold" if report.holds() else "a claim is false")

# %%
report.save("audit_a_claim.svg")
