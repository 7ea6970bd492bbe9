"""What runs in a process of its own: a model's graph, its training steps, the figures of a device.

Arguments and results are JSON values. A model is `{"zoo": ID}`, or `{"file": PATH, "name": NAME, "inputs":
[[name or None, shape, data type], …]}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what an optimizer's first step imports otherwise, seconds in every child
from torch.utils._pytree import tree_leaves, tree_map_only

from mfcp.emulator import zoo
from mfcp.errors import DataError
from mfcp.profiling import machine
from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.capture.modules import call, default_loss
from mfcp.threads import cores

_SPECIAL_TOKENS = 3  # padding, begin, end: drawn tokens are none of them, as padding would be masked
_AUTOCAST = {"fp32": torch.float32, "amp_fp16": torch.float16, "amp_bf16": torch.bfloat16}
Spec = dict[str, Any]


def prepare(arguments: dict[str, Any]) -> None:
    """Import what a job of the zoo needs, before its process is forked."""
    if "zoo" in arguments.get("model", {}):
        import transformers

        family = _variant(arguments["model"]).family
        for name in (family.config, family.model):
            getattr(transformers, name)  # imports the module that has it


def graph(model: Spec) -> dict[str, Any]:
    """The operators of one sample's forward pass: columns of tables nodes and edges, or why there are none.

    Raises:
        DataError: the file cannot be executed, or has no such module.
    """
    if "zoo" in model:
        module, inputs = zoo.build(_variant(model))
        with zoo.quiet():
            nodes, edges = capture(module, inputs, model["zoo"])
    else:
        module, inputs = _of_file(model, "meta")
        one = tree_map_only(torch.Tensor, lambda tensor: tensor[:1] if tensor.ndim else tensor, inputs)
        try:
            nodes, edges = capture(module, one, model["id"])
        except DataError as error:
            return {"why": str(error)}
    return {"nodes": nodes.to_dict("list"), "edges": edges.to_dict("list")}


def train(
    model: Spec,
    batch: int,
    *,
    precision: str,
    optimizer: str,
    device: str,
    threads: int | None,
    memory: int | None,
    warmup: int,
    steps: int,
    total: int | None,
    seed: int,
) -> dict[str, Any]:
    """Train for `warmup + steps` steps, or `total` ones, and time each: forward, loss, backward, optimizer.

    Args:
        model, batch: what is trained, and samples of a step.
        precision: fp32, or amp_fp16 or amp_bf16 by autocast, the former with loss scaling.
        optimizer: sgd or adamw.
        device: cpu or cuda:0.
        threads: of the CPU; None for all cores.
        memory: bytes of a GPU to be used at most.
        warmup: steps whose time does not count.
        steps: that are timed; None, with `total`, for all the others.
        seed: of weights and inputs.

    Returns:
        step_times in seconds, train_s from the first step's start to the last one's end, and peak_bytes of a GPU.
    """
    where = torch.device(device)
    torch.set_num_threads(threads or cores())
    if where.type == "cuda":
        torch.cuda.set_device(where)
        if memory is not None:
            torch.cuda.set_per_process_memory_fraction(min(1.0, memory / torch.cuda.mem_get_info()[1]))
    torch.manual_seed(seed)
    module, inputs = real(model, batch, where)
    module.train()
    step = _step(module, inputs, precision, optimizer, where)
    marks = [time.perf_counter()]
    for _ in range(total or warmup + steps):
        step()
        if where.type == "cuda":
            torch.cuda.synchronize()
        marks.append(time.perf_counter())
    taken = [after - before for before, after in pairwise(marks)]
    return {
        "step_times": taken[warmup:] or taken,
        "train_s": marks[-1] - marks[0],
        **({"peak_bytes": torch.cuda.max_memory_reserved()} if where.type == "cuda" else {}),
    }


def real(model: Spec, batch: int, device: torch.device) -> tuple[torch.nn.Module, Any]:
    """The model with random weights on a device, and a batch of synthetic inputs with which its output has a loss."""
    if "zoo" in model:
        variant = _variant(model)
        module, inputs = zoo.build(variant, str(device))
        # On real tensors the models make their masks themselves, as in any training.
        shapes = {name: value for name, value in inputs.items() if not name.endswith("mask")}
        is_cv = variant.family.domain == "cv"
        config: Any = module.config
        low, high = (0, zoo.CLASSES[variant.shape]) if is_cv else (_SPECIAL_TOKENS, config.vocab_size)
        return module, _drawn(zoo.with_labels(variant, shapes), batch, device, low, high)
    module, inputs = _of_file(model, str(device))
    return module.to(device), _drawn(inputs, batch, device, 0, 1)


def _of_file(model: Spec, device: str) -> tuple[torch.nn.Module, Any]:
    from mfcp.tasks.capture.user_module import load_module

    module = load_module(Path(model["file"]), model["name"], device)
    if isinstance(module, torch.export.ExportedProgram):
        module = module.module()
    tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for _, shape, dtype in model["inputs"]]
    names = [name for name, *_ in model["inputs"]]
    return module, dict(zip(names, tensors, strict=True)) if all(names) else tensors


def _drawn(shapes: Any, batch: int, device: torch.device, low: int, high: int) -> Any:
    """Values of these shapes at another batch: normal, or whole numbers from `low` to below `high`."""
    made: dict[int, torch.Tensor] = {}
    for like in tree_leaves(shapes):
        shape = (batch, *like.shape[1:]) if like.ndim else ()
        made[id(like)] = (
            torch.randn(shape, dtype=like.dtype, device=device)
            if like.is_floating_point()
            else torch.randint(low, high, shape, device=device).to(like.dtype)
        )
    # Labels that are the inputs stay so.
    return tree_map_only(torch.Tensor, lambda like: made[id(like)], shapes)


def _step(
    module: torch.nn.Module, inputs: Any, precision: str, optimizer: str, device: torch.device
) -> Callable[[], None]:
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    update = (
        torch.optim.SGD(trained, lr=0.01, momentum=0.9, weight_decay=1e-4)
        if optimizer == "sgd"
        else torch.optim.AdamW(trained)
    )
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "amp_fp16")

    def step() -> None:
        update.zero_grad()
        with torch.autocast(device.type, _AUTOCAST[precision], enabled=precision != "fp32"):
            loss = default_loss(call(module, inputs))
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(update)
        scaler.update()

    return step


def _variant(model: Spec) -> zoo.Variant:
    return next(variant for variant in zoo.variants() if variant.graph_id == model["zoo"])


JOBS: dict[str, Callable[..., Any]] = {
    "graph": graph,
    "train": train,
    "places": machine.places,
    "figures": machine.figures,
}
