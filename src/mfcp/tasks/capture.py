"""A model's forward pass as an operator graph: ATen operators recorded on the meta device.

No weights, no accelerator, no arithmetic: tensors carry shapes only. The conventions are those of the
published operator tables of real models, so that captured and published graphs mix:

- one forward pass in evaluation mode; pure views and empty allocations are looked through;
- `flops` is 2 x multiply-accumulates of convolutions and matrix products, other operators count 0;
- `bytes_read` are activation inputs in full (parameters and buffers excluded), `bytes_written` all outputs;
- `param_count` are the parameter and buffer elements an operator reads, counted at their first use;
- an edge (src, dst) says that `dst` reads memory that `src` was the last to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from mfcp.errors import DataError

NODE_COLUMNS = ("graph_id", "node_id", "op", "flops", "bytes_read", "bytes_written", "output_numel", "param_count")
EDGE_COLUMNS = ("graph_id", "src", "dst")
_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


def capture(
    module: torch.nn.Module, example_inputs: Sequence[Any] | Mapping[str, Any], graph_id: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The operators of one forward pass, as `nodes` and `edges` tables of the log schema.

    Args:
        module: any module; left unchanged except that it is put into evaluation mode. Build it under
            `torch.device("meta")`: on another device the pass is really computed.
        example_inputs: positional arguments, or keyword arguments as a mapping, on the module's device.
            With batch 1 the counts are per sample.
        graph_id: name of the graph in both tables.

    Returns:
        nodes, one row per operator in execution order, and edges.

    Raises:
        DataError: the forward pass fails, for example because it needs the *values* of a tensor.
    """
    recorder = _Recorder(module)
    module.eval()
    try:
        with torch.no_grad(), recorder:
            if isinstance(example_inputs, Mapping):
                module(**example_inputs)
            else:
                module(*example_inputs)
    except Exception as error:
        raise DataError(
            f"graph '{graph_id}': {type(module).__name__} cannot be captured, its forward pass failed after "
            f"{len(recorder.nodes)} operators at '{recorder.current}' ({type(error).__name__}: {error}); a pass that "
            "depends on the values of a tensor needs that part fixed or removed"
        ) from error
    nodes = pd.DataFrame(recorder.nodes, columns=list(NODE_COLUMNS[1:]))
    edges = pd.DataFrame(recorder.edges, columns=list(EDGE_COLUMNS[1:]), dtype="int64")
    nodes.insert(0, "graph_id", graph_id)
    edges.insert(0, "graph_id", graph_id)
    return nodes, edges


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every operator that reaches the dispatcher below autograd."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[tuple[int, str, int, int, int, int, int]] = []
        self.edges: list[tuple[int, int]] = []
        self.current = "start"
        self._writer: dict[int, int] = {}
        self._parameters: dict[int, set[tuple[int, ...]]] = {}
        self._counted: set[int] = set()
        # A freed storage's address is reused, so everything seen stays referenced until the end.
        self._alive: list[Any] = [module]
        for tensor in [*module.parameters(), *module.buffers()]:
            self._parameters.setdefault(_memory(tensor), set())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.current = str(func)
        out = func(*args, **kwargs)
        outputs = [t for t in _tensors(out) if t.numel()]
        if not outputs:
            return out
        inputs = _tensors((args, kwargs))
        name = func.overloadpacket.__name__
        self._alive.extend(t.untyped_storage() for t in outputs)
        read = {_memory(t) for t in inputs}
        is_view = not func._schema.is_mutable and all(_memory(t) in read for t in outputs)
        if not is_view and name not in _ALLOCATIONS:
            self._record(func, name, inputs, outputs, (args, kwargs, out))
        return out

    def _record(
        self, func: Any, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], call: tuple[Any, Any, Any]
    ) -> None:
        node = len(self.nodes)
        args, kwargs, out = call
        formula = flop_registry.get(func.overloadpacket)
        flops = int(formula(*args, **kwargs, out_val=out)) if formula else 0
        read = params = 0
        sources = set()
        for tensor in inputs:
            memory = _memory(tensor)
            if memory in self._parameters:
                if memory not in self._counted:
                    self._counted.add(memory)
                    params += tensor.untyped_storage().nbytes() // tensor.element_size()
                continue
            read += tensor.numel() * tensor.element_size()
            if memory in self._writer:
                sources.add(self._writer[memory])
        written = sum(t.numel() * t.element_size() for t in outputs)
        operator = name if name.endswith("__") else name.rstrip("_")
        self.nodes.append((node, operator, flops, read, written, outputs[0].numel(), params))
        self.edges.extend((source, node) for source in sorted(sources))
        for tensor in outputs:
            self._writer[_memory(tensor)] = node


def _memory(tensor: torch.Tensor) -> int:
    """Identity of the memory behind a tensor, shared by all of its views."""
    return int(tensor.untyped_storage()._cdata)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _tensors(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    return []
