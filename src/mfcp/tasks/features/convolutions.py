"""The convolution that networks are trained with: torch_geometric takes seconds to load, and answers do not need it."""

import warnings

with warnings.catch_warnings():
    # torch_geometric 2.8 scripts helpers while it is imported, which torch announces to end: since 2.14 to everybody.
    warnings.filterwarnings("ignore", message="`torch.jit.script", category=Warning)
    from torch_geometric.nn import SAGEConv

__all__ = ["SAGEConv"]
