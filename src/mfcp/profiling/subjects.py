"""What is profiled, and in which order: tasks of the zoo and of a user's own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from mfcp.emulator import zoo
from mfcp.emulator.architectures import FAMILIES
from mfcp.errors import SettingsError
from mfcp.tasks.capture.inputs import input_size, parse_input

MOST = 10**9
"""Of a count or a side: what the log schema takes of a batch."""
_BATCH = 8  # of the zoo: a training step of its largest models fits into 16 GB


@dataclass(frozen=True)
class Subject:
    """One model at one input shape.

    Attributes:
        graph_id: model@shape.
        model: its name.
        family: what it is grouped by.
        domain: cv or nlp, where known.
        size: pixels of a side or tokens, where known.
        optimizer: that it is trained with.
        batch: of a task unless others are asked for.
        spec: JSON values by which its process finds it.
        effort: where it stands in its family, from small to large.
    """

    graph_id: str
    model: str
    family: str
    domain: str | None
    size: int | None
    optimizer: str
    batch: int
    spec: dict[str, Any]
    effort: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class ProfilingRun:
    """One run of a task on a cluster."""

    subject: Subject
    batch: int
    precision: str
    place: dict[str, Any]
    threads: int | None
    cluster_id: str
    attempt: int
    suffix: str

    @property
    def task_id(self) -> str:
        """Graph, batch, precision, and epochs and examples of a whole task."""
        return f"{self.subject.graph_id}/b{self.batch}/{self.precision}{self.suffix}"

    @property
    def run_id(self) -> str:
        """What a resumed profile knows it by."""
        return f"{self.cluster_id}/{self.task_id}/{self.attempt}"


def subjects(models: Sequence[str], inputs: Sequence[str]) -> list[Subject]:
    """What MODEL arguments name, each once; the whole zoo where there are none.

    Args:
        models: `zoo:resnet-50@224`, `zoo:resnet` for a family, or `FILE.py:NAME`.
        inputs: of every file's module, as `mfcp capture --input` takes them.

    Raises:
        SettingsError: an unknown model, or inputs that do not go with the models.
        ModuleNotFoundError: the package that the zoo's models are of.
    """
    found: dict[str, Subject] = {}
    for text in models or [f"zoo:{family.name}" for family in FAMILIES]:
        path, colon, name = text.rpartition(":")
        if text.startswith("zoo:"):
            chosen = _of_zoo(text.removeprefix("zoo:"))
        elif colon and path.endswith(".py"):
            chosen = [_of_file(path, name, inputs)]
        else:
            raise SettingsError(f"'{text}': expected zoo:ID, zoo:FAMILY or FILE.py:NAME")
        for subject in chosen:
            if found.setdefault(subject.graph_id, subject).spec != subject.spec:
                raise SettingsError(f"'{text}': another model is named {subject.graph_id}; profile them one by one")
    if inputs and not any("file" in subject.spec for subject in found.values()):
        raise SettingsError("--input goes with FILE.py:NAME; no such model is named")
    return list(found.values())


def in_turns(chosen: Sequence[Subject]) -> list[list[Subject]]:
    """One of each family a turn, the small ones of a family first."""
    by_family = sorted(chosen, key=lambda subject: (subject.family, subject.effort))
    queues = [list(members) for _, members in groupby(by_family, key=lambda subject: subject.family)]
    return [[subject for subject in turn if subject is not None] for turn in zip_longest(*queues)]


def _of_zoo(name: str) -> list[Subject]:
    chosen = [variant for variant in zoo.variants() if name in (variant.graph_id, variant.family.name)]
    if not chosen:
        raise SettingsError(f"no model or family '{name}' in the zoo; `mfcp capture --list` names the models")
    if find_spec("transformers") is None:
        raise ModuleNotFoundError("the zoo's models are of transformers", name="transformers")
    return list(map(_variant, chosen))


def _variant(variant: zoo.Variant) -> Subject:
    family = variant.family
    place = list(family.sizes).index(variant.size), list(family.shapes).index(variant.shape)
    return Subject(
        variant.graph_id,
        variant.model,
        family.name,
        family.domain,
        variant.shape,
        family.optimizer,
        _BATCH,
        {"zoo": variant.graph_id},
        (sum(place), *place),  # the family's small models at large inputs come with its larger ones at small inputs
    )


def _of_file(path: str, name: str, inputs: Sequence[str]) -> Subject:
    if not Path(path).is_file():
        raise SettingsError(f"{path}: no such file; expected a Python file")
    if not inputs:
        raise SettingsError(f"{path}:{name}: expected --input for each input of it, such as --input 8x3x224x224")
    parsed = [parse_input(text) for text in inputs]
    if any(key for key, *_ in parsed) and not all(key for key, *_ in parsed):
        raise SettingsError("--input: give every input a NAME of its own, or none")
    if max(side for _, shape, _ in parsed for side in shape) > MOST:
        raise SettingsError(f"--input: expected sides of at most {MOST}, got {', '.join(inputs)}")
    first = parsed[0][1]
    graph_id = f"{name}@{'+'.join('x'.join(map(str, shape[1:])) or '1' for _, shape, _ in parsed)}"
    spec = {"file": path, "name": name, "id": graph_id, "inputs": parsed}
    return Subject(graph_id, name, name, None, input_size(first), "adamw", first[0], spec)
