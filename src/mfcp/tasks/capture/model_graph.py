"""A model's forward pass or training step as an operator graph: ATen operators recorded on the meta device.

No weights, no accelerator, no arithmetic: tensors carry shapes only. The conventions are those of the
published operator tables of real models, so that captured and published graphs mix:

- a forward pass is one in evaluation mode; pure views and empty allocations are looked through;
- `flops` is 2 x multiply-accumulates of convolutions and matrix products, other operators count 0;
- `bytes_read` are activation inputs in full (parameters and buffers excluded), `bytes_written` all outputs;
- `param_count` are the parameter and buffer elements an operator reads, counted at their first use;
- an edge (src, dst) says that `dst` reads memory that `src` was the last to write.
- `once` is 1 for operators that the batch does not repeat, as they depend on no input: weights that are standardised,
  biases of positions. What a first pass computes and keeps is part of no later one, and not of the graph.

A training step is a graph of its own: forward pass in training mode, backward pass, and one step of the
optimizer. There, backward and optimizer read parameters once more, and `bytes_read` has them.

Further columns: `part` (forward, backward, optimizer), and `dtype` and `shape` of the first output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd
import torch

from mfcp.errors import DataError, SettingsError
from mfcp.tasks.capture.modules import (
    META,
    as_on_accelerators,
    first_pass,
    forward,
    on_meta,
    traced,
    training_step,
    with_weights,
    without_weights,
)
from mfcp.tasks.capture.recording import Recorder

NODE_COLUMNS = ("graph_id", "node_id", "op", "flops", "bytes_read", "bytes_written", "output_numel", "param_count")
EXTRA_COLUMNS = ("part", "dtype", "shape", "once")
EDGE_COLUMNS = ("graph_id", "src", "dst")

Inputs = Sequence[Any] | Mapping[str, Any]


def capture(
    module: torch.nn.Module | torch.export.ExportedProgram,
    example_inputs: Inputs,
    graph_id: str,
    *,
    optimizer: str | None = None,
    loss: Callable[[Any], torch.Tensor] | None = None,
    values: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The operators of one forward pass or training step, as `nodes` and `edges` tables of the log schema.

    Args:
        module: any module, on any device, or an exported program. It is left as it is: a copy runs, without weights
            unless `values` are wanted.
        example_inputs: positional arguments, or keyword arguments as a mapping; only shapes and data types matter.
            With batch 1 the counts are per sample, see `mfcp.tasks.capture.scaling` for all batch sizes at once.
        graph_id: name of the graph in both tables.
        optimizer: None for the forward pass; adam, adamw or sgd for a training step with it.
        loss: of a training step, from the module's output to a scalar; default: `output.loss` if there is one, else
            the sum of the output.
        values: run the pass for real, with the module's weights, for models that look at values. Inputs on the meta
            device are drawn: normal numbers, and zeros and ones where they are whole.

    Returns:
        nodes, one row per operator in execution order, and edges.

    Raises:
        DataError: the pass fails, for example because it needs the *values* of a tensor; names the operator.
        SettingsError: an unknown optimizer.
    """

    def run(twin: torch.nn.Module, inputs: Any, new_tensors: AbstractContextManager[Any]) -> Recorder:
        with new_tensors:
            first_pass(twin, inputs, training=optimizer is not None)
        recorder = Recorder(twin, inputs)
        try:
            with new_tensors:
                if optimizer is None:
                    forward(twin, inputs, recorder)
                else:
                    training_step(twin, inputs, recorder, optimizer, loss)
        except SettingsError:
            raise
        except Exception as error:
            raise _failure(graph_id, module, recorder, error, values) from error
        return recorder

    if values:
        with as_on_accelerators():
            recorder = run(*with_weights(module, example_inputs), nullcontext())
    else:
        recorder = _on_meta(run, module, on_meta(example_inputs), training=optimizer is not None)
    return as_tables(graph_id, recorder.nodes, recorder.edges)


def _on_meta(run: Callable[..., Recorder], module: Any, inputs: Any, *, training: bool) -> Recorder:
    """The passes without weights, in the first of three ways that works."""
    try:
        return run(without_weights(module), inputs, nullcontext())
    except DataError:
        try:  # some modules make tensors in their pass without a device: put them where the rest is
            return run(without_weights(module), inputs, META)
        except DataError as failure:
            # Others look at values only where they are not traced, as transformers does at masks.
            program = traced(without_weights(module), inputs, training=training)
            if program is None:
                raise failure from failure.__cause__
            return run(program, inputs, nullcontext())


def as_tables(
    graph_id: str, nodes: Sequence[tuple[Any, ...]], edges: Sequence[tuple[int, int]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows without graph_id as `nodes` and `edges` tables."""
    node_table = pd.DataFrame(nodes, columns=[*NODE_COLUMNS[1:], *EXTRA_COLUMNS])
    edge_table = pd.DataFrame(edges, columns=list(EDGE_COLUMNS[1:]), dtype="int64")
    node_table.insert(0, "graph_id", graph_id)
    edge_table.insert(0, "graph_id", graph_id)
    return node_table, edge_table


def _failure(graph_id: str, module: object, recorder: Recorder, error: Exception, values: bool) -> DataError:
    which = f"{recorder.part or 'optimizer'} pass failed after {len(recorder.nodes)} operators"
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return DataError(
        f"graph '{graph_id}': {type(module).__name__} cannot be captured, its {which} at '{recorder.current}' "
        f"({type(error).__name__}: {reason}); {_advice(error, values)}"
    )


def _advice(error: Exception, values: bool) -> str:
    """What to do about a pass that failed."""
    text = str(error)
    if isinstance(error, DataError):
        return "nothing was recorded"
    if "fake impl" in text or ("'Meta' backend" in text and "aten::" not in text):
        return "give this operator a shape rule with torch.library.register_fake"
    if any(sign in text for sign in ("meta tensors", "data-independent", "data-dependent", "'Meta' backend")):
        return (
            "it needs the values of a tensor, of which only the shape is known: fix or remove that part, or run it for "
            "real (--values)"
        )
    if "device" in text:
        return "a tensor made outside of the module takes part: register it as a buffer or pass it as an input"
    shapes = "check the shapes and data types of the inputs"
    return shapes if values else f"{shapes}; if these are right, run it for real (--values)"
