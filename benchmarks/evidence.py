"""What finished runs and a few measured steps bring to a nomination, on families and settings that nothing looks at.

    python benchmarks/evidence.py --data DIR --out OUT     DIR holds `timm` and `gavel`; the default platform is made
    python benchmarks/evidence.py --data DIR --out OUT --only timm-1      one log's draw of test families
    python benchmarks/evidence.py --page --out OUT         docs/evidence.json, the page and its figures from OUT alone
    python benchmarks/evidence.py --data DIR --further     more draws of gavel for one comparison, added to the page
    python benchmarks/evidence.py --data DIR --intervals   the shares that intervals hold, anew, on the page
    python benchmarks/evidence.py --data DIR --json FILE   the goals' ratios for programs, on the logs in DIR alone

Draws of test families and settings beyond those of the study, three splits of all others each, rounds of 5 tasks in
order: what one round runs or measures the next one knows. Ratios are of penalised excess to that of `mfcp_x` on the
same rounds, with paired 95 % intervals clustered by setting, seed and round. What is measured is off by 5 % (a normal
error of log time), unless a row says otherwise. Two cores do two draws beside each other: an hour and a half in all.

With `--json`, DIR holds `timm`, `gavel` or both, or is a log itself, and the ways are those that goals name. A log with
too few sets of clusters for settings beyond the study's has some of these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pandas as pd

from benchmarks.evidence_page import (
    COMPARED,
    IN_TABLE,
    SCORED,
    records_of,
    summarise,
    write_further,
    write_intervals,
    write_page,
)
from benchmarks.evidence_rounds import Way, play
from benchmarks.evidence_training import retrained, without_a_tenth
from benchmarks.records import folder_of, write_records
from benchmarks.tuning import TuningLog
from benchmarks.workers import workers
from mfcp.data.log.tables import find_table
from mfcp.data.pool.splits import qualifying_sets
from mfcp.errors import DataError, guarded
from mfcp.evaluation.metrics import Reference
from mfcp.files import replacing
from mfcp.methods.base import Trained
from mfcp.methods.pretrain import pretrain
from mfcp.study.setting import Setting

LOGS = ("default", "timm", "gavel")
DRAWS, SEEDS, SETTINGS = 3, 3, 2
USED, FIRST_DRAW = 20, 30  # settings that the study has; draws of test families below were looked at
FURTHER, MORE = "gavel", 12  # draws of families alone, decided on before anything of them was looked at
ROUNDS, LARGE = 200, {20: 40, 50: 20}  # rounds a seed; tasks of a large round → rounds
BASE = "mfcp_x"

WORTH = Way(budget=None, worth=0.002)
BOTH = replace(WORTH, history="others")
WAYS: dict[str, Way] = {
    BASE: Way(),
    "others": Way("others"),
    "own": Way("own"),
    **{f"value {k}": Way(budget=k) for k in (1, 2, 3, 4)},
    **{f"variance {k}": Way(choose="variance", budget=k) for k in (3, 5)},
    **{f"random {k}": Way(choose="random", budget=k) for k in (3, 5)},
    **{f"worth {worth:g}": replace(WORTH, worth=worth) for worth in (0.01, 0.005, 0.002)},
    "others, worth 0.01": replace(BOTH, worth=0.01),
    "others, worth 0.002": BOTH,
    "others, worth 0.002, remembered": replace(BOTH, remembers=True),
    "own, worth 0.002": replace(WORTH, history="own"),
}
DISTURBED: dict[str, dict[str, float]] = {
    "2 %": {"noise": 0.02, "assumed": 0.02},
    "10 %": {"noise": 0.10, "assumed": 0.10},
    "10 %, taken for 5 %": {"noise": 0.10},
    "5 %, taken for 10 %": {"assumed": 0.10},
    "5 %, and all 10 % too long": {"bias": 0.10},
    "5 %, and all 10 % too short": {"bias": -0.10},
}
WAYS |= {
    f"{way} | {name}": replace(WAYS[way], **changes)
    for way in ("others", "own", "others, worth 0.002")
    for name, changes in DISTURBED.items()
}
IN_LARGE = (BASE, "others", "own", "others, worth 0.002")


class FreshLog(TuningLog):
    """A log with test families, settings and splits that neither tuning nor the study has."""

    def __init__(self, data: Path | None, draw: int) -> None:
        super().__init__(data, (0,))
        fresh = {
            "seeds": tuple(range(3000, 3000 + SEEDS)),
            "tests_on": "held_out",
            "draw": FIRST_DRAW + draw,
            "settings_after": self._after(draw),
            "settings": SETTINGS,
        }
        self.featurizing = self.featurizing.model_copy(update=fresh)
        self.usual = self.study(self.featurizing.train)
        self.names = tuple(self.usual.settings)

    def _after(self, draw: int) -> int:
        """How many sets of clusters come before those of this draw: those of the study, if there are as many."""
        sets = len(qualifying_sets(self.pool, self.featurizing.clusters, self.featurizing.settings_seed))
        if sets >= USED + SETTINGS * DRAWS:
            return USED + SETTINGS * (draw % DRAWS)  # further draws of families have the same sets
        return SETTINGS * draw % max(sets - SETTINGS + 1, 1)

    def trained(self, setting: Setting) -> Trained:
        """`mfcp_x`, as the study trains it."""
        settings = self.plan.settings("unseen", None)
        method = settings.methods[BASE]
        section = settings.section("pretrain")
        base = pretrain(setting, section.model_copy(update=method.needs(section)))
        return method.fit(setting, base, settings.section("finetune"))


def played(trained: Trained, setting: Setting, rounds: int, ways: Iterable[str]) -> Iterable[pd.DataFrame]:
    """So many rounds a seed in some ways, a table for each.

    Raises:
        DataError: the setting has too few tasks for its rounds.
    """
    reference = Reference.of(setting, rounds)
    for name in ways:
        yield play(trained, setting, reference, WAYS[name]).assign(method=name, tasks=setting.matching.tasks)


def rows(log: FreshLog) -> Iterable[pd.DataFrame]:
    """Every round of every way, on every setting and size of rounds."""
    for setting in log.each(log.usual):
        trained = log.trained(setting)
        for table in played(trained, setting, ROUNDS, WAYS):
            yield table
            print(setting.name, table["method"].iloc[0], flush=True)
        for tasks, count in LARGE.items():
            large = setting.at_size(tasks)
            try:
                yield from played(trained, large, count, IN_LARGE)
            except DataError as error:
                print(error, file=sys.stderr)
                continue
            print(setting.name, tasks, flush=True)


def trainings(log: FreshLog) -> Iterable[pd.DataFrame]:
    """The same runs as evidence and learned from, and what a tenth of the groups to learn from is worth."""
    for setting in log.each(log.usual):
        trained = log.trained(setting)
        reference = Reference.of(setting, ROUNDS)
        yield retrained(setting, trained, reference, log.trained, Way().noise).assign(part="same runs", runs=0)
        fewer, runs = without_a_tenth(setting)
        for name, model in ((BASE, trained), ("a tenth less to learn from", log.trained(fewer))):
            yield play(model, setting, reference, Way()).assign(method=name, part="tenth", runs=runs)
        print(setting.name, "trained", flush=True)


def scored(folder: Path | None, draw: int, ways: Sequence[str] = (BASE, *SCORED.values())) -> pd.DataFrame:
    """The rounds of a log's draw, in some ways: by default those that goals name. None is the log that is made."""
    log = FreshLog(folder, draw)
    found = [table for setting in log.each(log.usual) for table in played(log.trained(setting), setting, ROUNDS, ways)]
    name = folder.resolve().name if folder else LOGS[0]
    return pd.concat(found, ignore_index=True).assign(log=name, draw=str(draw + 1))


def score(data: Path, target: Path, processes: int) -> None:
    """Ratios of each log to a file, when its draws are done."""
    rounds: dict[Path, list[pd.DataFrame]] = {folder: [] for folder in logs_in(data)}
    records = list[dict[str, Any]]()
    with workers(processes) as pool:
        waiting = {pool.submit(scored, folder, draw): folder for folder in rounds for draw in range(DRAWS)}
        for future in as_completed(list(waiting)):
            folder = waiting.pop(future)
            try:
                rounds[folder].append(future.result())
                print(f"{folder.name}: {len(rounds[folder])} of {DRAWS} draws", file=sys.stderr, flush=True)
            except DataError as error:
                print(f"{folder.name}: a draw is skipped, {error}", file=sys.stderr, flush=True)
            if rounds[folder] and folder not in waiting.values():
                records += records_of(summarise(pd.concat(rounds[folder], ignore_index=True)))
                write_records(target, records)
    write_records(target, records)
    for row in records:
        cells = "" if row["cells"] is None else f"{row['cells']:5.2f} cells"
        print(f"{row['log']:12} {row['variant']:26} {row['ratio']:5.2f} [{row['low']:.2f}, {row['high']:.2f}] {cells}")


def further(data: Path, processes: int) -> None:
    """More draws of a log whose own leave one comparison open, to the page's numbers; then the page."""
    folder, ways = data / FURTHER, (BASE, *COMPARED)
    with workers(processes) as pool:
        waiting = [pool.submit(scored, folder, draw, ways) for draw in range(DRAWS, DRAWS + MORE)]
        rounds = pd.concat([future.result() for future in waiting], ignore_index=True)
    write_further(FURTHER, rounds)


def intervals(data: Path, processes: int) -> None:
    """How many of the 80 % intervals hold the truth, for a page whose plans are as they were."""
    folders = [None if name == LOGS[0] else data / name for name in LOGS]
    for folder in folders:
        if folder and not folder.is_dir():
            raise DataError(f"{folder}: no such folder; expected a log there, as the page has one")
    with workers(processes) as pool:
        waiting = [pool.submit(scored, folder, draw, IN_TABLE) for folder in folders for draw in range(DRAWS)]
        for done, _ in enumerate(as_completed(waiting), 1):
            print(f"{done} of {len(waiting)} draws", file=sys.stderr, flush=True)
        write_intervals(summarise(pd.concat([future.result() for future in waiting], ignore_index=True)))


def logs_in(data: Path) -> list[Path]:
    """The folder itself, if it is a log; else those of `timm` and `gavel` that are in it."""
    if data.is_dir() and find_table(data, "runs") is not None:
        return [data]
    measured = LOGS[1:]
    found = [data / name for name in measured if (data / name).is_dir()]
    for name in measured:
        if data / name not in found:
            print(f"{name}: skipped, no folder {data / name}", file=sys.stderr)
    if not found:
        raise DataError(f"{data}: neither a log nor a folder with {' or '.join(measured)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=folder_of, help="folder with timm and gavel in the log schema")
    parser.add_argument("--out", type=Path, help="folder of the rounds, a file for each log and draw")
    parser.add_argument("--only", metavar="LOG-DRAW", help="one of them, such as timm-1")
    parser.add_argument("--page", action="store_true", help="write numbers and page, and run nothing")
    parser.add_argument("--further", action="store_true", help=f"{MORE} more draws of {FURTHER}, in three ways")
    parser.add_argument("--intervals", action="store_true", help="shares that intervals hold, on the page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets the goals' ratios, a log at a time")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="draws beside each other (2)")
    options = parser.parse_args()
    if options.data is None and not options.page:
        parser.error("--data: expected the folder with timm and gavel")
    if options.json:
        score(options.data, options.json, options.processes)
        return
    if options.further:
        further(options.data, options.processes)
        return
    if options.intervals:
        intervals(options.data, options.processes)
        return
    if options.out is None:
        parser.error("--out: expected the folder of the rounds")
    if options.page:
        write_page(options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in LOGS:
        for draw in range(DRAWS):
            target = options.out / f"{name}-{draw + 1}.parquet"
            if target.exists() or options.only not in (None, target.stem):
                continue
            log = FreshLog(None if name == "default" else options.data / name, draw)
            for made, part in ((trainings, target.with_name(f"trained-{target.name}")), (rows, target)):
                if part.exists():
                    continue
                table = pd.concat(made(log), ignore_index=True).assign(log=name, draw=target.stem)
                with replacing(part) as path:
                    table.to_parquet(path, index=False)
    if not options.only:
        write_page(options.out)


if __name__ == "__main__":
    sys.exit(guarded(main))
