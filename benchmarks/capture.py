"""What capture costs: the whole zoo, and a dispatch mode against `torch.export`.

    python benchmarks/capture.py            both tables; about five minutes on one core
    python benchmarks/capture.py --quick    no training steps: about two minutes

Seconds are processor time of one thread, as the machine may do other things as well. `tasks` are those of the emulated
default, which captures every graph of the zoo once, in its first stage (dvc keeps the tables). The second table's
models are exported with a free batch; a capture for all batch sizes is two passes. Each is the median of three.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from mfcp.emulator import zoo
from mfcp.emulator.platform import drawn_variants
from mfcp.emulator.settings import EmulatorSettings
from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.capture.scaling import capture_scaled

COMPARED = ("resnet-18@32", "vit-tiny@32", "swin-nano@32", "bert-mini@32", "gpt2-mini@64", "t5-mini@32")
LIMIT_S = 360.0
CONSOLE = Console(width=110)


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def zoo_table(training: bool) -> None:
    """Capture of every graph, by family."""
    tasks = pd.Series([variant.family.name for variant in drawn_variants(EmulatorSettings(), seed=0)]).value_counts()
    CONSOLE.print("\nthe zoo: processor seconds of capture")
    table = Table()
    for title in ("family", "tasks", "graphs", "operators", "forward [s]", "training step [s]"):
        table.add_column(title, justify="left" if title == "family" else "right")
    rows = []
    for family in tasks.index.sort_values():
        chosen = zoo.variants([family])
        nodes = []
        forward = seconds(lambda chosen=chosen, nodes=nodes: nodes.append(zoo.capture_all(chosen)[0]))
        step = seconds(lambda chosen=chosen: [*map(train, chosen)]) if training else 0.0
        rows.append((tasks[family], len(chosen), len(nodes[0]), forward, step))
        table.add_row(family, *map(shown, rows[-1]))
    total = tuple(map(sum, zip(*rows, strict=True)))
    table.add_section()
    table.add_row(f"{len(rows)} families", *map(shown, total))
    CONSOLE.print(table)
    CONSOLE.print(
        f"all graphs of the default: {total[3]:.0f} s, {total[3] / LIMIT_S:.0%} of the {LIMIT_S:.0f} s allowed"
    )


def shown(value: float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def train(variant: zoo.Variant) -> None:
    with zoo.quiet():
        model, inputs = zoo.build(variant)
        batch = {name: two(tensor) for name, tensor in zoo.with_labels(variant, inputs).items()}
        capture(model, batch, variant.graph_id, optimizer="adamw")


def two(tensor: torch.Tensor) -> torch.Tensor:
    """The same input at batch 2: normalisation over a batch of one 1 x 1 image is refused in training."""
    return torch.empty(2, *tensor.shape[1:], dtype=tensor.dtype, device="meta")


def export_table() -> None:
    """Two passes of the dispatch mode against one export with a free batch."""
    CONSOLE.print("one capture for all batch sizes: processor seconds, median of 3")
    table = Table()
    for title in ("model", "dispatch [s]", "export [s]", "ratio", "FLOPs of both"):
        table.add_column(title, justify="left" if title == "model" else "right")
    ratios = []
    for graph_id in COMPARED:
        dispatch, exported, flops = compare(graph_id)
        ratios.append(exported / dispatch)
        same = "equal" if flops[0] == flops[1] else f"{flops[0]:.4g} / {flops[1]:.4g}"
        table.add_row(graph_id, f"{dispatch:.2f}", f"{exported:.2f}", f"{ratios[-1]:.1f}", same)
    CONSOLE.print(table)
    CONSOLE.print(f"export takes {statistics.median(ratios):.1f} times as long (median)")


def compare(graph_id: str) -> tuple[float, float, list[int]]:
    """Seconds of both ways, and the FLOPs that both count."""
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    with zoo.quiet():
        model, inputs = zoo.build(variant)
        dispatch = [seconds(lambda: capture_scaled(model, inputs, "g")) for _ in range(3)]
        exported = [seconds(lambda: export(model, inputs)) for _ in range(3)]
        modules = (Positional(model, list(inputs)), export(model, inputs))
        flops = [capture(m, list(map(two, inputs.values())), "g")[0]["flops"].sum() for m in modules]
    return statistics.median(dispatch), statistics.median(exported), flops


class Positional(torch.nn.Module):
    """A model with its inputs by position."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True))).logits


def export(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.export.ExportedProgram:
    free = ({0: torch.export.Dim.DYNAMIC},) * len(inputs)
    arguments = tuple(map(two, inputs.values()))
    return torch.export.export(Positional(model, list(inputs)).eval(), arguments, dynamic_shapes=(free,), strict=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no training steps of the zoo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    export_table()
    zoo_table(training=not options.quick)


if __name__ == "__main__":
    main()
