"""Writes down the operators that a pass of a module sends to PyTorch's dispatcher."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operator below autograd; views and empty allocations are looked through.

    Args:
        module: that makes the pass.
        inputs: of the pass, however nested: what depends on none of them, the batch does not repeat.

    Attributes:
        part: forward, backward or optimizer, what operators are recorded as; None records nothing.
        nodes: columns `node_id` to `once` of the nodes table, in the order of execution.
        edges: (producer, consumer), each pair once a consumer.
        current: the operator that runs, for messages.
    """

    def __init__(self, module: torch.nn.Module, inputs: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.part: str | None = "forward"
        self.nodes: list[tuple[int, str, int, int, int, int, int, str, str, str, int]] = []
        self.edges: list[tuple[int, int]] = []
        self.current = "start"
        self._writer: dict[int, int] = {}
        self._counted: set[int] = set()
        # A freed storage's address is reused, so everything seen stays referenced until the end.
        self._alive: list[Any] = [module, inputs]
        held = [*module.parameters(), *module.buffers()]
        self._on_host = not any(tensor.is_meta for tensor in held)
        self._parameters = {_memory(tensor) for tensor in held if not is_lazy(tensor)}
        self._repeated = {_memory(tensor) for tensor in _tensors(inputs)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.current = str(func)
        out = func(*args, **kwargs)
        # An in-place operator on a list of tensors returns nothing: what it writes is its first argument.
        outputs = [t for t in _tensors(args[0] if out is None and args else out) if t.numel()]
        if self.part != "forward":  # optimizers count their steps on the host, or where all is on it, in scalars
            outputs = [t for t in outputs if t.is_meta or (self._on_host and (t.ndim or self.part == "backward"))]
        if not outputs:
            return out
        inputs = _tensors((args, kwargs))
        name = func.overloadpacket.__name__
        self._alive.extend(t.untyped_storage() for t in outputs)
        read = {_memory(t) for t in inputs}
        is_view = not func._schema.is_mutable and all(_memory(t) in read for t in outputs)
        if self.part and not is_view and name not in _ALLOCATIONS:
            self._record(func, name, inputs, outputs, (args, kwargs, out))
        return out

    def _record(
        self, func: Any, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], call: tuple[Any, Any, Any]
    ) -> None:
        node = len(self.nodes)
        args, kwargs, out = call
        formula = flop_registry.get(func.overloadpacket)
        if name == "_grouped_mm" and formula is None:
            flops = _grouped_flops(args[0], args[1], outputs[0])
        else:
            flops = int(formula(*args, **kwargs, out_val=out)) if formula else 0
        read = params = 0
        once = self.part == "optimizer" or not any(_memory(tensor) in self._repeated for tensor in inputs)
        sources = set()
        for tensor in inputs:
            memory = _memory(tensor)
            if memory in self._parameters and memory not in self._counted:
                self._counted.add(memory)
                params += tensor.untyped_storage().nbytes() // tensor.element_size()
            if memory not in self._parameters or self.part != "forward":
                read += tensor.numel() * tensor.element_size()
            if memory in self._writer:
                sources.add(self._writer[memory])
        written = sum(t.numel() * t.element_size() for t in outputs)
        sides = [sum(t.numel() for t in outputs)] if name.startswith("_foreach_") else outputs[0].shape
        dtype, shape = str(outputs[0].dtype).removeprefix("torch."), "x".join(map(str, sides)) or "scalar"
        amounts = flops, read, written, prod(sides), params
        self.nodes.append((node, _plain(name), *amounts, str(self.part), dtype, shape, int(once)))
        self.edges.extend((source, node) for source in sorted(sources))
        for tensor in outputs:
            self._writer[_memory(tensor)] = node
        if not once:
            self._repeated.update(map(_memory, outputs))


def _grouped_flops(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> int:
    """Of products of groups of rows, columns or terms, whose sizes are values: together they are as many as all."""
    return 2 * out.numel() * a.shape[-1] if a.ndim > b.ndim else 2 * a.numel() * b.shape[-1]


def _plain(name: str) -> str:
    """The operator's name, the same in place, out of place and over a list of tensors."""
    name = name.removeprefix("_foreach_")
    return name if name.endswith("__") else name.rstrip("_")


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
