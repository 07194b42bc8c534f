"""The client of `pdgd_client.py` behind Flower's own mods for differential privacy."""

from __future__ import annotations

from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from foltr_audit_recorder.flower import recording_mod

from federated_search.pdgd_client import train

CLIP, EPSILON, DELTA = 0.05, 1.0, 1e-5

local_dp_mod = LocalDpMod(clipping_norm=CLIP, sensitivity=CLIP, epsilon=EPSILON, delta=DELTA)
"""A sensitivity as large as the clip, as it is easily chosen; two messages may differ by twice as much."""

# The last mod is next to the train function: it tells the recorder the update before the others change it.
local_app = ClientApp()
local_app.train(mods=[local_dp_mod, recording_mod])(train)

central_app = ClientApp()
central_app.train(mods=[fixedclipping_mod, recording_mod])(train)
