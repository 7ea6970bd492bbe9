"""Stage pretrain: data/features → data/models/pretrain, squared-error predictors and their calibration."""

from __future__ import annotations

from mfcp.files import replacing_folder
from mfcp.methods.pretrain import PretrainSettings, epochs, pretrain
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, main
from mfcp.study.study_data import Study


def run(settings: Settings) -> None:
    """Pretrain the heads of every setting."""
    section: PretrainSettings = settings.section("pretrain")
    study = Study.load(FEATURES)
    with replacing_folder(MODELS / "pretrain") as folder:
        for name in study.settings:
            setting = study.setting(name, settings.section("matching"), price=0.0)
            with progress(f"pretrain {name}", epochs(section)) as advance:
                pretrain(setting, section, advance=advance).save(folder, name)


if __name__ == "__main__":
    main(run)
