"""Stage release: data/valid → data/release, the production method trained on all clusters."""

from __future__ import annotations

from pathlib import Path

from mfcp.data.pool.reading import read_totalled
from mfcp.files import folder_digest
from mfcp.progress import progress
from mfcp.release.fitting import fit_release, steps
from mfcp.settings import Settings
from mfcp.stages.base import VALID, main

RELEASE = Path("data") / "release"


def run(settings: Settings) -> None:
    """Train and write the release; print what it is."""
    with progress("release", steps(settings)) as advance:
        data = {"name": str(VALID), "log": folder_digest(VALID)}
        release = fit_release(read_totalled(VALID), settings, RELEASE, data=data, advance=advance)
    print("\n".join(release.summary()))


if __name__ == "__main__":
    main(run)
