"""Units of work: each a folder of results, named by a digest of everything that it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mfcp.files import replacing, replacing_folder, write_json
from mfcp.paper.code_closure import ROOT, modules, stage_code
from mfcp.paper.held_out import of_clusters
from mfcp.paper.study_file import StudyPlan
from mfcp.registry import FILES
from mfcp.threads import one_blas_thread, one_thread

Kind = Literal["study", "pretrain", "compare"]

STAGES: dict[Kind, tuple[str, ...]] = {
    "study": ("ingest", "validate", "featurize"),
    "pretrain": ("pretrain",),
    "compare": ("finetune", "evaluate"),
}
"""The stages of the pipeline whose work a job does: the code that these run decides what it finds."""
LIBRARIES = ("numpy", "scipy", "numba", "torch")


@dataclass(frozen=True)
class Job:
    """A unit of work.

    Attributes:
        name: for people, and the first part of its folder's name.
        kind: which function does it.
        content: everything it depends on but code and other jobs, as JSON values.
        needs: jobs whose folders it reads.
        source: where its log lies; what lies there is part of `content`.
    """

    name: str
    kind: Kind
    content: dict[str, Any]
    needs: tuple[Job, ...] = ()
    source: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Digest of what the job depends on."""
        parts = [self.kind, self.content, [need.key for need in self.needs], code(self.kind), libraries()]
        return digest(json.dumps(parts, sort_keys=True).encode())

    def folder(self, out: Path) -> Path:
        """Where its results are, once it is done."""
        return Path(out) / "jobs" / f"{self.name}-{self.key[:12]}"

    def done(self, out: Path) -> bool:
        """Whether they are there; folders are written whole or not at all."""
        return self.folder(out).is_dir()


def work(job: Job, out: Path) -> dict[str, float]:
    """Do a job: its folder appears when everything is in it.

    Returns:
        `seconds` and `cpu_seconds` it took.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    with one_thread(), one_blas_thread(), replacing_folder(job.folder(out)) as folder:
        info = {"study": _study, "pretrain": _pretrain, "compare": _compare}[job.kind](job, out, folder)
        took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        write_json(folder / "info.json", {"name": job.name, "key": job.key, **took, **info})
    return took


def plan_jobs(
    plan: StudyPlan, logs: dict[str, dict[str, Any]], experiments: tuple[str, ...], settings: tuple[str, ...]
) -> list[Job]:
    """Every job of a study in an order that starts with what others need.

    Args:
        plan: the study.
        logs: data set → its `ingest.source`, as in params.yaml.
        experiments, settings: which of the study's; others are left out.
    """
    studies: dict[str, Job] = {}
    bases: dict[str, Job] = {}
    rest: list[Job] = []
    chooses = [s for s in plan.study.tuning if s in settings] if plan.study.choice.experiment in experiments else []
    sections = {name: plan.base.content.get(name) or {} for name in ("validate", "pool")}
    seed = plan.base.section("ingest").seed
    for data, source in logs.items():
        content = {"data": _contents(source), "seed": seed, **sections, "featurize": plan.featurizing(data)}
        content |= _clusters(plan, data)
        usual = Job(f"{data}-study", "study", content, source=_placed(source))
        studies[usual.key] = usual
        if chooses:
            seeds = {"seeds": list(plan.study.choice.seeds)}
            study = _other_study(usual, f"{data}-choice", {**content["featurize"], **seeds})
            studies[study.key] = study
            own = plan.choice_settings().content
            for setting in chooses:
                base = _pretrain_job(plan, f"{data}-choice", setting, own, study)
                bases[base.key] = base
                rest.append(_compare_job(choice_name(data, setting), setting, own, study, base))
        for name in dict.fromkeys(plan.study.experiments[each].of or each for each in experiments):
            for draw in plan.draws_of(name):
                study, where = usual, data
                if draw is not None:
                    where = f"{data}-draw{draw}"
                    study = _other_study(usual, where, plan.featurizing(data, draw), **_clusters(plan, data, draw))
                chosen = [setting for setting in plan.settings_of(name, draw) if setting in settings]
                if chosen:
                    studies.setdefault(study.key, study)
                for value in plan.study.experiments[name].values_on(data):
                    for setting in chosen:
                        own = plan.settings(name, value).content
                        base = _pretrain_job(plan, where, setting, own, study)
                        base = bases.setdefault(base.key, base)
                        rest.append(_compare_job(job_name(data, name, setting, value), setting, own, study, base))
    return [*studies.values(), *bases.values(), *rest]


def _clusters(plan: StudyPlan, data: str, draw: int | None = None) -> dict[str, Any]:
    """A part of a job's content; logs that hold no cluster out have none."""
    own = plan.clusters(data, draw)
    return {"clusters": own} if own else {}


def _other_study(usual: Job, name: str, featurize: dict[str, Any], **changes: Any) -> Job:
    """The study of the same log under another section `featurize`."""
    return replace(usual, name=f"{name}-study", content={**usual.content, "featurize": featurize, **changes})


def _pretrain_job(plan: StudyPlan, data: str, setting: str, own: dict[str, Any], study: Job) -> Job:
    usual = plan.base.content.get("matching") or {}
    content = {"setting": setting, "pretrain": own["pretrain"], "matching": usual}
    return Job(f"{data}-pretrain-{setting}", "pretrain", content, (study,))


def _compare_job(name: str, setting: str, own: dict[str, Any], study: Job, base: Job) -> Job:
    content = {"setting": setting, **{key: own[key] for key in ("matching", "finetune", "methods")}}
    content["evaluate"] = {key: value for key, value in own["evaluate"].items() if key != "bootstrap"}
    return Job(name, "compare", content, (study, base))


def choice_name(data: str, setting: str) -> str:
    """Name of a unit that methods are chosen on."""
    return f"{data}-choice-{setting}"


def job_name(data: str, experiment: str, setting: str, value: float | None) -> str:
    """Name of a unit of the comparison."""
    return f"{data}-{experiment}-{setting}" + ("" if value is None else f"-{value:g}")


def _study(job: Job, out: Path, folder: Path) -> dict[str, Any]:
    """Tables → pool → features of every seed."""
    from mfcp.data.log.validation import validate
    from mfcp.data.pool.splits import describe
    from mfcp.data.sources import Source
    from mfcp.registry import import_members
    from mfcp.settings import Settings
    from mfcp.study.featurize import featurize
    from mfcp.study.study_pool import build_pool

    import_members("mfcp.data.sources")
    settings = Settings({name: job.content[name] for name in ("validate", "pool", "featurize")})
    tables = Source.parse(job.source).read(job.content["seed"])
    if clusters := job.content.get("clusters"):
        tables = of_clusters(tables, **clusters)
    tables = validate(tables, max_bad_share=settings.section("validate").max_bad_share).tables
    section = settings.section("featurize")
    pool = build_pool(tables, settings.section("pool"), seed=section.settings_seed)
    study = featurize(tables, pool, section)
    study.save(folder)
    clusters = {name: [str(pool.cluster_id[c]) for c in own] for name, own in study.settings.items()}
    return {"pool": describe(pool), "settings": clusters, "features": study.Z.shape[2]}


def _pretrain(job: Job, out: Path, folder: Path) -> dict[str, Any]:
    """The predictors that an experiment's methods start from."""
    from mfcp.methods.pretrain import pretrain
    from mfcp.settings import Settings
    from mfcp.study.study_data import Study

    settings = Settings({name: job.content[name] for name in ("pretrain", "matching")})
    section = settings.section("pretrain")
    name = job.content["setting"]
    setting = Study.load(job.needs[0].folder(out)).setting(name, settings.section("matching"), price=0.0, exact=True)
    pretrain(setting, section).save(folder, name)
    return {}


def _compare(job: Job, out: Path, folder: Path) -> dict[str, Any]:
    """Fit every row and judge it on validation and on test rounds."""
    from mfcp.evaluation.metrics import evaluate, log_time_errors
    from mfcp.methods.pretrain import Pretrained
    from mfcp.settings import Settings
    from mfcp.study.reference import solved_setting
    from mfcp.study.study_data import Study

    settings = Settings({name: job.content[name] for name in ("matching", "finetune", "evaluate", "methods")}, job.name)
    methods, section = settings.methods, settings.section("evaluate")
    study, base = (need.folder(out) for need in job.needs)
    name = job.content["setting"]
    matching = settings.section("matching")
    setting = solved_setting(Study.load(study), name, matching, price=section.shortfall_price, exact=True)
    start = Pretrained.load(base, name, setting)
    trained, fit = {}, {}
    for label, method in methods.items():
        wall, cpu = time.perf_counter(), time.process_time()
        trained[label] = method.fit(setting, start, settings.section("finetune"))
        fit[label] = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    rounds, seeds = evaluate(setting, trained, section)
    errors = log_time_errors(setting, trained)
    seeds = seeds.merge(errors, on=["setting", "method", "seed"], validate="one_to_one")
    for table, path in ((rounds, "rounds.parquet"), (seeds, "seeds.parquet")):
        with replacing(folder / path) as temporary:
            table.to_parquet(temporary, index=False)
    return {"fit": fit, "seeds": len(setting.seeds)}


def _placed(source: dict[str, Any]) -> dict[str, Any]:
    """A source whose files are named from the root, for workers that start elsewhere."""
    return {
        key: str(Path(value).resolve()) if key != "kind" and isinstance(value, str) and Path(value).exists() else value
        for key, value in source.items()
    }


def _contents(source: dict[str, Any]) -> dict[str, Any]:
    """A source with the digests of the files it names, instead of where they lie."""
    result = {}
    for key, value in source.items():
        path = Path(value) if isinstance(value, str) else None
        if path is not None and key != "kind" and path.exists():
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            result[key] = digest(*(part for file in files for part in (file.name.encode(), file.read_bytes())))
        else:
            result[key] = value
    return result


@cache
def code(kind: Kind) -> str:
    """Digest of the source files that a kind of job runs, with the CSV tables that lie among them."""
    names = frozenset[str]().union(*(stage_code(stage) for stage in STAGES[kind]))
    sources = {modules()[name] for name in names}
    tables = {table for folder in {path.parent for path in sources} for table in folder.glob("*.csv")}
    files = sorted(sources | tables)
    own = [Path(name).read_bytes() for name in os.environ.get(FILES, "").split(os.pathsep) if name]
    return digest(*(part for file in files for part in (str(file.relative_to(ROOT)).encode(), file.read_bytes())), *own)


@cache
def libraries() -> dict[str, str]:
    """Versions of what computes."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def digest(*parts: bytes) -> str:
    """SHA-256 of parts, each with its length."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()
