"""What Slurm's accounting tells of a cluster's jobs: `sacct -P` with a header, or `sacct --json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from mfcp.data.sources import Source
from mfcp.data.sources.rows import log_of, moment
from mfcp.data.sources.slurm_states import amount, status_of, trackable
from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

NEEDED = ("JobID", "JobName", "State", "ExitCode", "Start", "End", "ElapsedRaw")
_OPEN = {"RUNNING": "running", "PENDING": "pending", "REQUEUED": "pending", "SUSPENDED": "running"}


class Sacct(Source):
    """Jobs as runs: a task is what has one job name, or what its comment says; steps tell only of memory."""

    name: ClassVar[str] = "sacct"
    path: str = Field(min_length=1, description="file of `sacct -P -o …` with its header, or of `sacct --json`")
    task: Literal["JobName", "Comment"] = Field("JobName", description="column that names the task of a job")
    cluster: str = Field("", description="name of the cluster, where no column Cluster tells it")
    zone: str = Field("UTC", description="of times without one; SLURM_TIME_FORMAT=%s makes sacct print seconds")

    def read(self, seed: int) -> Tables:
        """The jobs' tables; nothing is drawn.

        Raises:
            DataError: no such file, columns that are missing, or a job without a task or cluster.
            SettingsError: a zone that is not known here.
        """
        path = Path(self.path)
        try:
            zone = ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise SettingsError(f"zone: '{self.zone}' is not known here; expected one such as Europe/Paris") from None
        rows = _of_json(path) if path.suffix == ".json" else _of_text(path)
        return log_of(path, (self._run(path, number, row, zone) for number, row in rows))

    def _run(self, path: Path, number: int, row: Mapping[str, str], zone: ZoneInfo) -> dict[str, Any]:
        task, cluster = row.get(self.task, "").strip(), row.get("Cluster", "").strip() or self.cluster
        if not task:
            raise DataError(f"{path}: row {number}: {self.task} is empty; it names the task of the job")
        if not cluster:
            raise DataError(f"{path}: row {number}: no column Cluster; say `cluster` in the settings of the source")
        word = row["State"].split(" ", 1)[0]
        memory = amount(trackable(row.get("AllocTRES", "")).get("mem", ""))
        peak = amount(row.get("MaxRSS", ""))
        status = status_of(row["State"], row["ExitCode"], peak, memory) or _OPEN.get(word, word.lower() or "unknown")
        began = moment(row["Start"], zone)
        wall = _seconds(path, number, row["ElapsedRaw"])
        array = row["JobID"]
        return {
            "run_id": f"{cluster}/{row.get('JobIDRaw') or array}/{row['Start']}",
            "task_id": task,
            "cluster_id": cluster,
            "duration_s": wall if wall and began is not None else None,  # 0: shorter than sacct counts, or never began
            "status": status,
            "started_at": None if began is None else began.isoformat(),
            "error": None if status == "succeeded" else f"{row['State']}, exit code {row['ExitCode']}",
        }


def _seconds(path: Path, number: int, text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise DataError(f"{path}: row {number}, ElapsedRaw: expected seconds, got '{text}'") from None


def _of_text(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Row number in the file and cells of every job of `sacct -P`, with the peak memory of its steps."""
    from mfcp.border.limits import limits
    from mfcp.border.regular import opened, refusing

    with opened(path, limits().text_mib, expected="what `sacct -P` prints") as file:
        with refusing(path, "text in UTF-8"):
            first = file.readline().decode("utf-8-sig").rstrip("\r\n")
        header, closed = first.rstrip("|").split("|"), first.endswith("|")  # `sacct -p` ends each line with a bar
        if lacking := [name for name in NEEDED if name not in header]:
            raise DataError(f"{path}: no column {', '.join(lacking)}; print it with sacct -P -o {','.join(NEEDED)},…")
        job: dict[str, str] | None = None
        began = number = 1
        for line in file:
            number += 1
            with refusing(path, "text in UTF-8"):
                cells = line.decode("utf-8").rstrip("\r\n").split("|")
            if not any(cells):
                continue
            if len(cells) != len(header) + closed:
                raise DataError(
                    f"{path}: row {number}: expected {len(header)} cells between bars, got {len(cells) - closed}; "
                    "where names have bars in them, give what `sacct --json` prints"
                )
            row = dict(zip(header, cells, strict=False))
            if "." in row["JobID"]:
                if job is not None and row["JobID"].split(".")[0] == job["JobID"]:
                    _take_peak(job, row.get("MaxRSS", ""))
                continue
            if job is not None:
                yield began, job
            job, began = row, number
        if job is not None:
            yield began, job


def _take_peak(job: dict[str, str], peak: str) -> None:
    if (amount(peak) or 0.0) > (amount(job.get("MaxRSS", "")) or 0.0):
        job["MaxRSS"] = peak


def _of_json(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and cells, as sacct would print them, of every job of `sacct --json`, of any of its versions."""
    from mfcp.border.json_text import read_json

    content = read_json(path)
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list):
        raise DataError(f"{path}: expected an object with a list 'jobs', as `sacct --json` prints it")
    for number, job in enumerate(jobs, 1):
        try:
            yield number, _as_text(job)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: job {number}: not one of `sacct --json` ({type(error).__name__}: {error})"
            ) from None


def _as_text(job: Mapping[str, Any]) -> dict[str, str]:
    state = job["state"]["current"]
    code = job["exit_code"]
    signal = code.get("signal") or {}
    number = signal.get("signal_id", signal.get("id", 0))
    time = job["time"]
    start = _plain(time["start"])
    memory = next((one["count"] for one in job["tres"]["allocated"] if one["type"] == "mem"), None)
    peaks = [
        int(_plain(one["count"]) or 0)
        for step in job.get("steps", [])
        for one in step["tres"]["requested"]["max"]
        if one["type"] == "mem"
    ]
    comment = job.get("comment")
    return {
        "JobID": str(_plain(job["job_id"])),
        "JobName": str(job["name"]),
        "Cluster": str(job["cluster"]),
        "State": str(state[0] if isinstance(state, list) else state),
        "ExitCode": f"{_plain(code['return_code']) or 0}:{_plain(number) or 0}",
        "Start": str(start) if start else "Unknown",
        "End": str(_plain(time["end"])),
        "ElapsedRaw": str(_plain(time["elapsed"])),
        "MaxRSS": str(max(peaks, default="")),
        "AllocTRES": "" if memory is None else f"mem={_plain(memory)}M",
        "Comment": str((comment or {}).get("job") or "") if isinstance(comment, dict) else str(comment or ""),
    }


def _plain(value: Any) -> Any:
    """A number, which newer versions wrap with whether it is set."""
    return value.get("number") if isinstance(value, dict) else value
