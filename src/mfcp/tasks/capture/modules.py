"""A module's passes: the forward pass, or one training step, on the meta device without weights unless these count."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.utils._pytree import tree_map_only

from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from mfcp.tasks.capture.recording import Recorder

OPTIMIZERS = ("adam", "adamw", "sgd")
"""Optimizers of a training step; `sgd` has momentum and weight decay, as vision models are trained."""

META = torch.device("meta")


def without_weights(module: Any) -> torch.nn.Module:
    """A copy of a module, or of a `torch.export.ExportedProgram`, on the meta device; no weight is copied.

    Raises:
        DataError: neither of the two, or a module that cannot be copied.
    """
    module = _module(module)
    twins: dict[int, Any] = {}
    for part in module.modules():
        # Plain attributes as well: tables of positions are often kept without being registered.
        held = [*part._parameters.values(), *part._buffers.values(), *vars(part).values()]
        for tensor in held:
            if isinstance(tensor, torch.Tensor) and id(tensor) not in twins:
                twins[id(tensor)] = _twin(tensor)
    copied = _copied(module, twins)
    for part in copied.modules():
        if isinstance(part, torch.fx.GraphModule):
            _move(part)
    return copied


def _module(given: Any) -> torch.nn.Module:
    if isinstance(given, torch.export.ExportedProgram):
        given = given.module()
    if not isinstance(given, torch.nn.Module):
        raise DataError(f"expected a torch.nn.Module or an exported program, got {type(given).__name__}")
    return given


def _copied(module: torch.nn.Module, twins: dict[int, Any]) -> torch.nn.Module:
    """A copy, with twins in place of what has one, by identity."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # copying an exported program calls what torch deprecates
            return copy.deepcopy(module, twins)
    except Exception as error:
        raise DataError(
            f"{type(module).__name__} cannot be copied ({type(error).__name__}: {error}); build it anew in a function "
            "and capture what that returns"
        ) from error


def _move(program: torch.fx.GraphModule) -> None:
    """Put what an exported program makes on the device that it was exported on onto the meta device."""
    for node in program.graph.nodes:
        if node.target is torch.ops.aten.to.device:
            node.update_arg(1, META)
        if isinstance(node.kwargs.get("device"), torch.device):
            node.update_kwarg("device", META)
    program.recompile()


def _twin(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, (UninitializedParameter, UninitializedBuffer)):  # the first pass gives it a shape
        kind: Any = type(tensor)
        return cast("torch.Tensor", kind(tensor.requires_grad, device=META, dtype=tensor.dtype))
    twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
    return twin


def with_weights(module: Any, inputs: Any) -> tuple[torch.nn.Module, Any]:
    """A copy of a module with its weights, and its inputs where it is: those on the meta device at random.

    Raises:
        DataError: a module that cannot be copied, or whose weights are on the meta device as well.
    """
    module = _module(module)
    held = [*module.parameters(), *module.buffers()]
    if any(tensor.is_meta for tensor in held):
        raise DataError(f"{type(module).__name__} has its weights on the meta device; with values, it needs them")
    device = held[0].device if held else torch.device("cpu")
    return _copied(module, {}), tree_map_only(torch.Tensor, lambda tensor: _valued(tensor, device), inputs)


@contextmanager
def as_on_accelerators() -> Iterator[None]:
    """Passes with values draw the same numbers every time, and run none of the operators that only hosts have."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings():
            # The flags below warn of a setting that they do not change.
            warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")
            with torch.random.fork_rng(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
                torch.manual_seed(0)
                yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _valued(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if not tensor.is_meta:
        return tensor.to(device)
    if tensor.is_floating_point() or tensor.is_complex():
        return torch.randn(tensor.shape, dtype=tensor.dtype, device=device)
    return torch.randint(0, 2, tensor.shape, device=device).to(tensor.dtype)  # rows that every table has


def on_meta(inputs: Any) -> Any:
    """The inputs, however nested, with every tensor on the meta device."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to(META), inputs)


def first_pass(module: torch.nn.Module, inputs: Any, *, training: bool) -> None:
    """A pass that nobody records: modules and libraries compute in it what they keep for all later ones.

    Whether they have done so before, for a model of the same size, must not change a graph. What fails here fails
    again in the pass that is recorded.
    """
    _set_mode(module, training=training)
    with suppress(Exception), torch.no_grad():
        call(module, inputs)


def forward(module: torch.nn.Module, inputs: Any, recorder: Recorder) -> None:
    """One pass in evaluation mode, without gradients."""
    _set_mode(module, training=False)
    with torch.no_grad(), recorder:
        call(module, inputs)


def traced(module: torch.nn.Module, inputs: Any, *, training: bool) -> torch.nn.Module | None:
    """What `torch.export` makes of a module; None where it fails, and without a word."""
    _set_mode(module, training=training)
    arguments: tuple[Any, Any] = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), None)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):  # it prints its graph when it fails
            warnings.simplefilter("ignore")
            return torch.export.export(module, *arguments, strict=False).module()
    except Exception:
        return None
    finally:
        logging.disable(disabled)


def training_step(
    module: torch.nn.Module, inputs: Any, recorder: Recorder, optimizer: str, loss: Callable[[Any], Any] | None
) -> None:
    """Forward and backward pass in training mode, then one step of an optimizer whose state exists already.

    Args:
        module, inputs: on one device; the module is used up.
        recorder: gets the operators, by part.
        optimizer: one of `OPTIMIZERS`.
        loss: from the module's output to a scalar; by default the output's `loss` if it has one, as the models of
            `transformers` do when they are given labels, else the sum of what it puts out.
    """
    _set_mode(module, training=True)
    steps = _optimizer(module, optimizer)
    with recorder:
        value = (loss or default_loss)(call(module, inputs))
        recorder.part = "backward"
        value.backward()
    recorder.part = None
    steps.step()  # makes the optimizer's state, which a step in the midst of training finds
    recorder.part = "optimizer"
    with recorder:
        steps.step()


def call(module: torch.nn.Module, inputs: Any) -> Any:
    """The module's output for positional arguments, or for keyword arguments as a mapping."""
    return module(**inputs) if isinstance(inputs, Mapping) else module(*inputs)


def _set_mode(module: torch.nn.Module, *, training: bool) -> None:
    with suppress(NotImplementedError):  # exported programs keep the mode that they were exported in
        module.train(training)


def default_loss(output: Any) -> torch.Tensor:
    """The output's own `loss`, as attribute or key, if there is one, else the sum of every tensor in it that needs a
    gradient; of complex ones, of their magnitudes.

    Raises:
        DataError: nothing in it needs a gradient.
    """
    given = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(given, torch.Tensor):
        return given
    found: list[torch.Tensor] = []
    tree_map_only(torch.Tensor, lambda tensor: found.append(tensor) if tensor.requires_grad else None, output)
    if not found:
        raise DataError(
            "its output needs no gradient: no parameter takes part, or the output is no tensor; give a loss"
        )
    sums = [(tensor.abs() if tensor.is_complex() else tensor).sum() for tensor in found]
    return torch.stack(sums).sum() if len(sums) > 1 else sums[0]


def _optimizer(module: torch.nn.Module, name: str) -> torch.optim.Optimizer:
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not trained:
        raise DataError("it has no parameter to train; capture its forward pass alone")
    match name:
        # One operator over all parameters, as PyTorch runs these on accelerators.
        case "adam":
            return torch.optim.Adam(trained, foreach=True)
        case "adamw":
            return torch.optim.AdamW(trained, foreach=True)
        case "sgd":
            return torch.optim.SGD(trained, lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=True)
    raise SettingsError(f"unknown optimizer '{name}'; known: {', '.join(OPTIMIZERS)}")
