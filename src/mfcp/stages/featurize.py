"""Stage featurize: data/valid → data/features, the task pool, its settings and splits, and a vector per task."""

from __future__ import annotations

from mfcp.data.pool.coverage import Coverage, refuse_thin
from mfcp.data.pool.reading import read_totalled
from mfcp.files import replacing_folder, write_json
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, REPORTS, VALID, main
from mfcp.study.featurize import FeaturizeSettings, facts_of, featurize
from mfcp.study.study_pool import build_pool


def run(settings: Settings) -> None:
    """Build the pool, fit the encoder on each seed's training tasks, and describe every task."""
    section: FeaturizeSettings = settings.section("featurize")
    tables = read_totalled(VALID)
    refuse_thin(Coverage.of(tables), benchmark=True, where=str(VALID))
    pool = build_pool(tables, settings.section("pool"), seed=section.settings_seed)
    with progress("featurize", len(section.seeds)) as advance:
        study = featurize(tables, pool, section, advance=advance)
    with replacing_folder(FEATURES) as folder:
        study.save(folder)
    write_json(REPORTS / "pool.json", facts_of(study))


if __name__ == "__main__":
    main(run)
