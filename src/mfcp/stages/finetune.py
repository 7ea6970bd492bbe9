"""Stage finetune@<method>: data/models/pretrain → data/models/<method>, one row of `methods:`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import torch

from mfcp.errors import SettingsError
from mfcp.files import replacing_folder
from mfcp.methods.pretrain import Pretrained
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, main
from mfcp.study.reference import solved_setting
from mfcp.study.study_data import Study
from mfcp.threads import one_thread


def run(settings: Settings, label: str) -> None:
    """Fit the method called `label` on every setting."""
    if label not in settings.methods:
        raise SettingsError(f"no row '{label}' under methods; known: {', '.join(settings.methods)}")
    method = settings.methods[label]
    section = settings.section("finetune")
    price = settings.section("evaluate").shortfall_price
    study = Study.load(FEATURES)
    matching, steps, ended = settings.section("matching"), method.steps(section), Event()

    def fit(name: str, folder: Path, advance: Callable[[], None]) -> None:
        def go_on() -> None:
            if ended.is_set():
                raise InterruptedError
            advance()

        setting = solved_setting(study, name, matching, price=price)
        base = Pretrained.load(MODELS / "pretrain", name, setting)
        method.fit(setting, base, section, advance=go_on).save(folder, name, setting)

    # All settings beside each other: what computes them leaves Python most of the time, and three on two cores end
    # together. Each draws from generators of its own and computes with one thread, so that the result is the same for
    # any number of cores.
    with (
        replacing_folder(MODELS / label) as folder,
        progress(label, steps and steps * len(study.settings)) as advance,
        one_thread(),
        ThreadPoolExecutor(len(study.settings), initializer=torch.set_num_threads, initargs=(1,)) as threads,
    ):
        fits = [threads.submit(fit, name, folder, advance) for name in study.settings]
        try:
            done, _ = wait(fits, return_when=FIRST_EXCEPTION)
        finally:
            ended.set()  # after an error, or Ctrl-C, the others need not be waited for
        for own in done:
            own.result()


if __name__ == "__main__":
    main(run, *sys.argv[1:])
