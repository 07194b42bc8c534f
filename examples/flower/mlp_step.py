"""The learner of `federated_search/mlp_client.py` for attacks, in foltr-audit's own environment.

foltr-audit attack --trace TRACE --client-step mlp_step.py:step --method map --method unit-votes
"""

from __future__ import annotations

import sys
from pathlib import Path

import foltr_audit as fa

sys.path.insert(0, str(Path(__file__).parent))
from federated_search.mlp_learner import listwise_loss, new_network

step = fa.torch_module_step(new_network(46), listwise_loss, lr=0.1)
