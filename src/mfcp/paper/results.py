"""From finished jobs to paper.json: tables, the choice on validation rounds, ratios, goals, timings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.evaluation.compare import POOLED, Resampled, resample, table
from mfcp.paper.example import worked
from mfcp.paper.jobs import Job, choice_name, job_name, libraries
from mfcp.paper.study_file import BASELINES, OURS, Goal, StudyPlan

HELD_OUT = "held out"  # pooled over the settings that nothing was tuned on
COMPARED = ("penalised_excess", "regret")
_DIGITS = 6

Entry = dict[str, Any]


def gather(plan: StudyPlan, jobs: Sequence[Job], out: Path, experiments: Iterable[str]) -> dict[str, Any]:
    """The content of paper.json, plain JSON values.

    Args:
        plan: the study.
        jobs: those of this run; what has failed is left out and named under `missing`.
        out: where they left their results.
        experiments: which of the study's.
    """
    study = plan.study
    studies = {job.name.removesuffix("-study"): job for job in jobs if job.kind == "study"}
    studies = {name: job for name, job in studies.items() if "-" not in name}  # not those with other splits
    chosen_on = {name: _excess_to_choose_on(plan, jobs, out, name) for name in studies}
    infos = {name: read_json(job.folder(out) / "info.json") for name, job in studies.items() if job.done(out)}
    found: dict[str, dict[str, Any]] = {}
    units: dict[tuple[str, str, float | None], _Unit] = {}  # a view of an experiment has its intervals, too
    for name in experiments:
        own = study.experiments[name]
        entries = []
        for data in infos:
            for value in own.values_on(data):
                key = (own.of or name, data, value)
                units[key] = units.get(key) or _Unit(plan, jobs, out, *key)
                entries.append(_entry(plan, out, name, units[key], chosen_on[data]))
        found[name] = {
            "title": own.title,
            "about": own.about,
            "of": own.of,
            "swept": own.swept,
            "changes": own.changes,
            "settings": list(plan.settings_of(own.of or name)),
            "figure": list(own.figure or plan.rows(name)),
            "paper_metrics": own.paper_metrics,
            "printed": {label: [list(pair) for pair in values] for label, values in own.printed.items()},
            "entries": [entry for entry in entries if entry],
        }
    result = {
        "study": _study(plan, found),
        "data": {
            name: {key: info[key] for key in ("pool", "settings", "features")} | {"cpu_seconds": info["cpu_seconds"]}
            for name, info in infos.items()
        },
        "experiments": found,
        "goals": [goal for each in found.values() for entry in each["entries"] for goal in entry.pop("goals")],
        "speed": _speed(plan, found),
        "example": _example(plan),
        "deviations": list(study.deviations),
        "retired": [each.model_dump(mode="json") for each in study.retired],
        "headline": _headline(plan),
        "looked_at": [each.model_dump(mode="json") for each in study.looked_at],
        "cpu_seconds": sum(read_json(job.folder(out) / "info.json")["cpu_seconds"] for job in jobs if job.done(out)),
        "environment": {"mfcp": version("mfcp"), **libraries(), "cores": os.cpu_count()},
    }  # fmt: skip
    rounded: dict[str, Any] = _rounded(result)
    return rounded


def _study(plan: StudyPlan, experiments: Iterable[str]) -> dict[str, Any]:
    """What the study is; of the families held out for good no more than their number, since no page may name them."""
    study, settings = plan.study, plan.base.section("evaluate")
    held = study.held_out
    return {
        "seeds": study.seeds, "settings": study.settings, "tuning": list(study.tuning),
        "ours": list(study.ours), "baselines": list(study.baselines), "ceilings": list(study.ceilings),
        "rounds": settings.rounds, "price": settings.shortfall_price,
        "clusters": plan.base.section("featurize").clusters, "tasks": plan.base.section("matching").tasks,
        "steps": plan.base.section("finetune").steps,
        "held_out": held.model_dump(mode="json", exclude={"names"})
        | {"named": {log: len(own.families) for log, own in held.names.items() if own.families}},
        "rules": _rules(plan, experiments),
    }  # fmt: skip


def _headline(plan: StudyPlan) -> dict[str, Any]:
    """What the page opens with, as the study file has it, with the methods of its second table."""
    headline = plan.study.headline
    parts = headline.parts
    grid = {} if parts is None else {
        title: {rule: parts.method(own, label) for rule, label in parts.rules.items()}
        for title, own in parts.predictors.items()
    }  # fmt: skip
    return headline.model_dump(mode="json") | {"parts": grid}


def _rules(plan: StudyPlan, experiments: Iterable[str]) -> dict[str, str]:
    """Method → name of the rule by which it decides."""
    return {label: m.rule.name for name in experiments for label, m in plan.settings(name, None).methods.items()}


def _speed(plan: StudyPlan, found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The study's goals for the time of a fit, each with what was found."""
    return [
        {
            "text": speed.text,
            "data": entry["data"],
            "method": speed.method,
            "at_most": speed.at_most,
            "found": entry["fit"][speed.method]["cpu_seconds"],
        }
        for speed in plan.study.speed
        if speed.experiment in found
        for entry in found[speed.experiment]["entries"]
    ]


class _Unit:
    """What an experiment's jobs on one data set left, at one value of what it sweeps over.

    Attributes:
        rounds, seeds: tables of the jobs that are done.
        missing: settings whose job is not.
    """

    def __init__(
        self, plan: StudyPlan, jobs: Sequence[Job], out: Path, source: str, data: str, value: float | None
    ) -> None:
        self.data, self.value = data, value
        names = {job_name(data, source, setting, value): setting for setting in plan.settings_of(source)}
        wanted = [job for job in jobs if job.name in names]
        self.done = [job for job in wanted if job.done(out)]
        self.missing = [names[job.name] for job in wanted if job not in self.done]
        self.rounds, self.seeds = (
            pd.concat([pd.read_parquet(job.folder(out) / f"{part}.parquet") for job in self.done], ignore_index=True)
            if self.done
            else pd.DataFrame()
            for part in ("rounds", "seeds")
        )
        if plan.study.experiments[source].held_out and self.done:
            self.rounds, self.seeds = (_by_draw(part, plan, source) for part in (self.rounds, self.seeds))
        self.bootstrap = plan.settings(source, value).section("evaluate").bootstrap
        self._samples: dict[tuple[str, ...], Resampled] = {}

    def sample(self, settings: Sequence[str], rows: Sequence[str]) -> Resampled:
        """A bootstrap over some settings, of some methods."""
        key = tuple(settings)
        if key not in self._samples:
            self._samples[key] = resample(self.rounds[self.rounds["setting"].isin(key)], self.bootstrap)
        return self._samples[key].only(rows)

    def seeds_of(self, settings: Sequence[str]) -> pd.DataFrame:
        """The table of seeds of some settings."""
        return self.seeds[self.seeds["setting"].isin(settings)]


def _by_draw(table: pd.DataFrame, plan: StudyPlan, source: str) -> pd.DataFrame:
    """A table whose `setting` is the draw of test tasks, and whose `seed` is the setting and seed within it.

    What is resampled first is then the draw, with its tasks and its clusters.
    """
    draw = {letter: k for k in plan.draws_of(source) for letter in plan.settings_of(source, k)}
    places = table["setting"].map(lambda letter: plan.settings_of(source, draw[letter]).index(letter))
    return table.assign(
        setting=table["setting"].map(lambda letter: f"draw {draw[letter]}"),
        seed=places * plan.study.held_out.seeds + table["seed"],
    )


def _excess_to_choose_on(plan: StudyPlan, jobs: Sequence[Job], out: Path, data: str) -> dict[str, float]:
    """Mean penalised excess of each method on the rounds that methods are chosen on; empty where these were not run."""
    names = {choice_name(data, setting) for setting in plan.study.tuning}
    done = [job.folder(out) / "seeds.parquet" for job in jobs if job.name in names and job.done(out)]
    if not done:
        return {}
    seeds = pd.concat([pd.read_parquet(path) for path in done], ignore_index=True)
    means = seeds.groupby("method", sort=False)["penalised_excess"].mean()
    return {str(label): float(value) for label, value in means.items()}


def _entry(plan: StudyPlan, out: Path, experiment: str, unit: _Unit, excess: dict[str, float]) -> Entry:
    """One data set's tables of an experiment, at one value of what it sweeps over; empty if there is nothing."""
    if not unit.done:
        return {}
    rows, value = plan.rows(experiment), unit.value
    settings = list(unit.rounds["setting"].unique())
    scopes = {POOLED: settings, HELD_OUT: [name for name in settings if name not in plan.study.tuning]}
    samples = {name: unit.sample(own, rows) for name, own in scopes.items() if own}
    tables = {name: table(sample, unit.seeds_of(scopes[name])) for name, sample in samples.items()}
    if value is None:
        tables |= {name: table(unit.sample([name], rows), unit.seeds_of([name])) for name in settings}
    chosen_on = {label: excess[label] for label in rows if label in excess}
    best = {
        kind: min((label for label in labels if label in chosen_on), key=chosen_on.__getitem__, default=None)
        for kind, labels in ((OURS, plan.study.ours), (BASELINES, plan.study.baselines))
    }
    infos = [read_json(job.folder(out) / "info.json") for job in unit.done]
    return {
        "data": unit.data,
        "value": value,
        "tables": tables,
        "errors": {name: _errors(unit.seeds_of(own), rows) for name, own in scopes.items() if own},
        "chosen_on": chosen_on,
        "best": best,
        "best_ratios": _ratios(samples, best[OURS], best[BASELINES], COMPARED),
        "goals": _goals(plan, experiment, unit.data, value, samples, best),
        "findings": _findings(plan, experiment, samples, best),
        "fit": {
            label: {
                key: float(np.mean([info["fit"][label][key] / info["seeds"] for info in infos]))
                for key in ("seconds", "cpu_seconds")
            }
            for label in rows
        },
        "cpu_seconds": sum(info["cpu_seconds"] for info in infos),
        "missing": unit.missing,
    }


def _errors(seeds: pd.DataFrame, rows: Sequence[str]) -> dict[str, dict[str, float]]:
    """Method → mean errors of log time over seeds, as in `mfcp.evaluation.metrics.log_time_errors`."""
    names = ["log_time_rms", "log_time_own"]
    means = seeds[seeds["method"].isin(rows)].groupby("method", sort=False)[names].mean()
    return {
        str(label): dict(zip(names, own, strict=True))
        for label, own in zip(means.index, means.values.tolist(), strict=True)
    }


def _ratios(
    samples: dict[str, Resampled], method: str | None, base: str | None, metrics: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """metric → scope → ratio of two methods; what cannot be said is left out."""
    result: dict[str, dict[str, Any]] = {}
    if method is None or base is None:
        return result
    for metric in metrics:
        for scope, sample in samples.items():
            if metric in sample.metrics and (ratio := sample.ratio(method, base, metric)) is not None:
                result.setdefault(metric, {})[scope] = ratio
    return result


def _goals(
    plan: StudyPlan, experiment: str, data: str, value: float | None, samples: Any, best: dict[str, str | None]
) -> list[dict[str, Any]]:
    goals = []
    for goal in (goal.on(data) for goal in plan.study.goals if goal.experiment == experiment):
        method, against = (best.get(label, label) for label in (goal.method, goal.against))
        ratios = _ratios(samples, method, against, [goal.metric]).get(goal.metric, {})
        beyond = {} if method is None or against is None else _beyond(goal, samples, method, against)
        goals.append(
            {"text": goal.text, "data": data, "experiment": experiment, "value": value, "metric": goal.metric,
             "method": method, "against": against, "at_most": goal.at_most, "p_below": goal.p_below,
             "ratios": ratios, "beyond": beyond, "met": met(goal, ratios.get(HELD_OUT), beyond.get(HELD_OUT))}
        )  # fmt: skip
    return goals


def _findings(
    plan: StudyPlan, experiment: str, samples: dict[str, Resampled], best: dict[str, str | None]
) -> list[dict[str, Any]]:
    """The ratios that the page's sentences are about; none but on the experiment of the headline."""
    if experiment != plan.study.headline.experiment:
        return []
    findings = []
    for each in plan.study.headline.follows:
        method, against = (best.get(label, label) for label in (each.method, each.against))
        ratios = _ratios(samples, method, against, ["penalised_excess"]).get("penalised_excess", {})
        findings.append({"text": each.text, "method": method, "against": against, "ratios": ratios})
    return findings


def _beyond(goal: Goal, samples: Any, method: str, against: str) -> dict[str, dict[str, Any]]:
    """Scope → the method's mean minus `at_most` of the other's, where the first is below zero and the other above."""
    return {
        scope: sample.difference(method, against, goal.metric, share=goal.at_most)
        for scope, sample in samples.items()
        if goal.metric in sample.metrics and sample.of(method, goal.metric)[0] < 0 < sample.of(against, goal.metric)[0]
    }


def met(goal: Goal, ratio: dict[str, Any] | None, beyond: dict[str, Any] | None) -> bool | None:
    """Whether held-out settings reach a goal; None where they say nothing of it."""
    if ratio is not None:
        return bool(ratio["mean"] <= goal.at_most and ratio["p"] < goal.p_below)
    return None if beyond is None else bool(beyond["mean"] <= 0 and beyond["p"] < goal.p_below)


def _example(plan: StudyPlan) -> dict[str, Any]:
    by_error, by_plan, optimum = worked(plan.study.example)
    fitted = {
        name: {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(each).items()}
        for name, each in (("by_error", by_error), ("by_plan", by_plan))
    }
    return plan.study.example.model_dump(mode="json") | {"optimum": optimum, **fitted}


def _rounded(value: Any) -> Any:
    """Numbers with the digits that a reader can use, so that the file stays small."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
