import foltr_audit as fa

spec = fa.Spec(
    data={"source": "synthetic:mq2007"},
    population={"clients": 1000},
    train={"rounds": 20},
    defense=fa.published_chain(eps=1.2),
    attack={"methods": ["map", "olsr"], "click_models": ["informational"]},
)
report = fa.attack(spec)
table = report.to_frame()  # a polars data frame
print(table.select("method", "recall", "auc", "guess", "guess_auc", "above_guess"))
