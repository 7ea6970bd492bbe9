"""Stage pretrain: data/features → data/models/pretrain, squared-error predictors and their calibration."""

from __future__ import annotations

from mfcp.files import replacing_folder
from mfcp.methods.pretrain import PretrainSettings, epochs, pretrain_setting
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, main
from mfcp.study.study_data import Study
from mfcp.threads import beside

_MANY = 50_000  # epochs times tasks that are worth processes of their own: some five seconds


def run(settings: Settings) -> None:
    """Pretrain the heads of every setting."""
    section: PretrainSettings = settings.section("pretrain")
    study = Study.load(FEATURES)
    steps = epochs(section) * len(study.settings)
    with replacing_folder(MODELS / "pretrain") as folder, progress("pretrain", steps) as advance:
        calls = [(study, name, settings.section("matching"), section, folder) for name in study.settings]
        beside(pretrain_setting, calls, worth=steps * len(study.pool.task_id) >= _MANY, advance=advance)


if __name__ == "__main__":
    main(run)
