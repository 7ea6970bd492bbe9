"""`mfcp capture`: a module, an ONNX file or a model of the zoo into a folder of the log schema, or one checked.

Imports nothing heavy until a command runs, as `mfcp --help` reads the options here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.json_output import add_json, aside, print_json
from mfcp.commands.reading import whole_number
from mfcp.errors import SettingsError
from mfcp.files import output_folder
from mfcp.progress import console
from mfcp.tasks.capture.inputs import DTYPES, input_size, parse_input

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from mfcp.data.log.captured import Model
    from mfcp.tasks.capture.scaling import Captured

    Graphs = tuple[Captured, Captured | None, Captured | None]

OPTIMIZERS = ("adam", "adamw", "sgd")  # static: --help imports no torch


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "capture",
        help="a model's operators, FLOPs and bytes, without weights or accelerator",
        description="Captures a model's operator graph for all batch sizes and prints what it holds. MODEL is "
        "FILE.py:NAME, a torch module or a class or function without arguments that makes one (the file is executed: "
        "only name code of your own); FILE.onnx; zoo:ID; or a folder whose tables nodes and edges are checked.",
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="FILE.py:NAME, FILE.onnx, zoo:ID or a folder")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]1x3x224x224[:DTYPE]",
        help=f"an input, batch first, once for each; tokens are 1x128:int64 ({', '.join(DTYPES)}; default float32)",
    )
    parser.add_argument("--phase", choices=("train", "infer"), help="train (default, not for ONNX) counts a step, too")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, help="of the training step (default: adamw)")
    parser.add_argument("--values", action="store_true", help="run it for real: for a model that looks at values")
    parser.add_argument(
        "--batch", type=whole_number(1), metavar="B", help="batch size of the task (default: that of --input)"
    )
    parser.add_argument("--name", metavar="ID", help="of task and graph (default: the model's)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="add tables nodes, edges and tasks to this folder")
    parser.add_argument("--force", action="store_true", help="replace a task of the same name in --out")
    parser.add_argument("--list", action="store_true", help="list the models of the zoo")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Capture and print; write with --out."""
    if options.list:
        from mfcp.emulator import zoo

        print("\n".join(f"zoo:{variant.graph_id}" for variant in zoo.variants()))
        return
    if not options.model:
        raise SettingsError("expected MODEL: FILE.py:NAME, FILE.onnx, zoo:ID or a folder; --list names the zoo")
    if not options.model.startswith("zoo:") and Path(options.model).is_dir():
        from mfcp.data.log.captured import read_graphs

        _refuse(options, "input", "phase", "optimizer", "values", "batch", "name", "out")
        tables = read_graphs(Path(options.model))
        _tell(options, tables["nodes"], tables["edges"])
        return
    if options.out:
        output_folder(options.out)
    with aside(options):
        model = _model(options)
    tables = model.tables()
    _tell(options, tables["nodes"], tables["edges"])
    with aside(options):
        for graph in model.graphs:
            why = f"holds for batch {graph.batch} only: {graph.only}" if graph.only else "holds for every batch size"
            print(f"{graph.graph_id}: {why}")
        if options.out:
            from mfcp.data.log.captured import add_model

            add_model(options.out, model, replace=options.force)
            print(f"added to {options.out}: task '{model.forward.graph_id}', tables nodes, edges and tasks")


def _refuse(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(options, name):
            raise SettingsError(f"--{name} does not go with {options.model}")


def _model(options: argparse.Namespace) -> Model:
    target: str = options.model
    if target.startswith("zoo:"):
        return _of_zoo(options, target.removeprefix("zoo:"))
    if target.endswith(".onnx"):
        return _of_onnx(options, Path(target))
    path, colon, name = target.rpartition(":")
    if colon and path.endswith(".py"):
        return _of_module(options, Path(path), name)
    if target.endswith(".py"):
        raise SettingsError(f"{target}: which module of it? expected {target}:NAME")
    raise SettingsError(f"'{target}': expected FILE.py:NAME, FILE.onnx, zoo:ID or an existing folder")


def _of_zoo(options: argparse.Namespace, graph_id: str) -> Model:
    from mfcp.emulator import zoo

    _refuse(options, "input", "values")
    variant = next((v for v in zoo.variants() if v.graph_id == graph_id), None)
    if variant is None:
        raise SettingsError(f"no model '{graph_id}' in the zoo; `mfcp capture --list` names them")
    with zoo.quiet():
        module, inputs = zoo.build(variant)
        labelled = zoo.with_labels(variant, inputs)
        graphs = _graphs(options, module, inputs, labelled, options.name or graph_id)
    return _made(options, variant.model, graphs, 1, variant.shape, variant.family.domain)


def _of_onnx(options: argparse.Namespace, path: Path) -> Model:
    from mfcp.tasks.capture.onnx import capture_onnx

    _refuse(options, "values")
    if options.phase == "train" or options.optimizer:
        raise SettingsError(
            f"{path}: an ONNX file holds the forward pass only; leave out --phase train and --optimizer"
        )
    parsed = [parse_input(text) for text in options.input]
    named = {name: shape for name, shape, _ in parsed if name}
    shapes = [shape for _, shape, _ in parsed]
    forward = capture_onnx(path, options.name or path.stem, shapes=_all_or_none(named, shapes))
    return _made(options, path.stem, (forward, None, None), forward.batch, input_size(shapes[0]) if shapes else None)


def _of_module(options: argparse.Namespace, path: Path, name: str) -> Model:
    import torch

    from mfcp.tasks.capture.user_module import load_module

    if not options.input:
        raise SettingsError(f"{options.model}: expected --input for each input of it, such as --input 1x3x224x224")
    parsed = [parse_input(text) for text in options.input]
    tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for _, shape, dtype in parsed]
    named = {key: tensor for (key, *_), tensor in zip(parsed, tensors, strict=True) if key}
    inputs = _all_or_none(named, tensors)
    torch.manual_seed(0)  # of weights, where a pass looks at their values
    module = load_module(path, name, "cpu" if options.values else "meta")
    graphs = _graphs(options, module, inputs, inputs, options.name or name)
    shape = parsed[0][1]
    return _made(options, name, graphs, shape[0] if shape else 1, input_size(shape))


def _all_or_none(named: dict[str, Any], listed: list[Any]) -> Any:
    if named and len(named) < len(listed):
        raise SettingsError("--input: give every input a NAME of its own, or none")
    return named or listed


def _graphs(options: argparse.Namespace, module: torch.nn.Module, inputs: Any, labelled: Any, name: str) -> Graphs:
    """The forward pass of one sample and of larger batches, and the training step unless the task is inference."""
    from mfcp.data.log.captured import BATCHES, TRAINING
    from mfcp.progress import progress
    from mfcp.tasks.capture.scaling import capture_scaled, one_sample

    if options.phase == "infer":
        _refuse(options, "optimizer")
    with progress(f"capture {name}"):
        scaled = capture_scaled(module, inputs, name, values=options.values)
        forward = one_sample(module, inputs, scaled)
        batched = None if forward is scaled else scaled.renamed(name + BATCHES)
        if options.phase == "infer":
            return forward, batched, None
        step = capture_scaled(
            module, labelled, name + TRAINING, optimizer=options.optimizer or "adamw", values=options.values
        )
    return forward, batched, step


def _made(
    options: argparse.Namespace, name: str, graphs: Graphs, batch: int, size: int | None, domain: str | None = None
) -> Model:
    from mfcp.data.log.captured import Model

    forward, batched, step = graphs
    optimizer = None if step is None else options.optimizer or "adamw"
    return Model(name, forward, step, optimizer, options.batch or batch, size, domain, batched)


def _tell(options: argparse.Namespace, nodes: pd.DataFrame, edges: pd.DataFrame) -> None:
    """One line a graph, or its numbers as JSON."""
    rows, unknown = _amounts(nodes, edges)
    if options.json:
        print_json({"graphs": rows, "operators_without_a_class": unknown})
    else:
        _print(rows, unknown)


def _amounts(nodes: pd.DataFrame, edges: pd.DataFrame) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Of one sample of each graph; and how often operators without a class occur."""
    import pandas as pd

    from mfcp.tasks.graphs.operator_graphs import build_graphs
    from mfcp.tasks.graphs.operators import CLASS_NAMES

    graphs = build_graphs(nodes, edges)
    part = nodes["part"].astype("str") if "part" in nodes else pd.Series("forward", nodes.index)
    forward = nodes["flops"].where(part == "forward", 0).groupby(nodes["graph_id"]).sum()
    steps = set(nodes.loc[part == "optimizer", "graph_id"])
    other = graphs.kind == CLASS_NAMES.index("other")
    rows = []
    for i, name in enumerate(graphs.graph_id):
        own = slice(graphs.ptr[i], graphs.ptr[i + 1])
        flops, read, written, params = (
            float(amount[own].sum()) for amount in (graphs.flops, graphs.read, graphs.written, graphs.params)
        )
        rows.append({
            "graph": str(name), "operators": int(own.stop - own.start), "flops_forward": float(forward[name]),
            "flops_training": flops if name in steps else None, "bytes_read": read, "bytes_written": written,
            "parameters": params, "other": int(other[own].sum()),
        })  # fmt: skip
    return rows, dict(graphs.unknown)


def _print(rows: list[dict[str, Any]], unknown: dict[str, int]) -> None:
    """One line a graph; the operators without a class below."""
    from rich.table import Table

    titles = ("graph", "operators", "FLOPs forward", "FLOPs training", "read [B]", "written [B]", "parameters", "other")
    table = Table(title="of one sample; parameters with buffers; other: operators without a class")
    for title in titles:
        table.add_column(title, justify="left" if title == "graph" else "right")
    for row in rows:
        name, operators, *amounts, other = row.values()
        table.add_row(name, str(operators), *("-" if one is None else _short(one) for one in amounts), str(other))
    console(None if sys.stdout.isatty() else 200).print(table)
    if unknown:
        counted = ", ".join(f"{name} ({count})" for name, count in sorted(unknown.items()))
        print(f"operators without a class, counted as other and without FLOPs: {counted}")


def _short(amount: float) -> str:
    """Four digits and a prefix: 4.089G."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= size:
            return f"{amount / size:.4g}{prefix}"
    return f"{amount:.4g}"
