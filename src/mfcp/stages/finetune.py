"""Stage finetune@<method>: data/models/pretrain → data/models/<method>, one row of `methods:`."""

from __future__ import annotations

import sys

from mfcp.errors import SettingsError
from mfcp.files import replacing_folder
from mfcp.methods.pretrain import Pretrained
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, main
from mfcp.study.reference import solved_setting
from mfcp.study.study_data import Study


def run(settings: Settings, label: str) -> None:
    """Fit the method called `label` on every setting."""
    if label not in settings.methods:
        raise SettingsError(f"no row '{label}' under methods; known: {', '.join(settings.methods)}")
    method = settings.methods[label]
    section = settings.section("finetune")
    price = settings.section("evaluate").shortfall_price
    study = Study.load(FEATURES)
    with replacing_folder(MODELS / label) as folder:
        for name in study.settings:
            setting = solved_setting(study, name, settings.section("matching"), price=price)
            base = Pretrained.load(MODELS / "pretrain", name, setting)
            with progress(f"{label} {name}", method.steps(section)) as advance:
                method.fit(setting, base, section, advance=advance).save(folder, name, setting)


if __name__ == "__main__":
    main(run, *sys.argv[1:])
