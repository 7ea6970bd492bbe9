"""The study file: which experiments, on which settings, with which methods, and what they are held to."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mfcp.border.bounds import Limits
from mfcp.border.yaml_text import read_yaml
from mfcp.errors import DataError, SettingsError
from mfcp.paper.held_out import HeldOut, letters
from mfcp.registry import explain
from mfcp.settings import Settings

DEFAULT = Path(__file__).with_name("study.yaml")
OURS, BASELINES = "ours", "baselines"  # in a goal: the best of that list, chosen on validation rounds

CHANGEABLE = ("matching", "pretrain", "finetune", "evaluate")  # sections of params.yaml, by experiment

Section = dict[str, Any]


class Experiment(BaseModel):
    """One table or figure of the paper."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    about: str = Field("", description="what a reader of its table must know")
    rows: tuple[str, ...] = Field((), description="labels of methods; none: all of params.yaml and of `methods`")
    settings: tuple[str, ...] = Field((), description="none: all")
    held_out: bool = Field(False, description="on families and settings that nothing else looks at, see the study")
    matching: Section = Field({}, description="changes of that section of params.yaml, as the next three")
    pretrain: Section = {}
    finetune: Section = {}
    evaluate: Section = {}
    sweep: dict[Literal["tasks", "zeta_floor"], tuple[float, ...]] = Field({}, max_length=1)
    largest: dict[str, float] = Field({}, description="data set → largest value that its log has tasks for")
    of: str = Field("", description="another experiment of whose results these rows are a table; nothing is run")
    figure: tuple[str, ...] = Field((), description="rows that are drawn; none: all")
    printed: dict[str, tuple[tuple[float, float | None], ...]] = Field(
        {}, description="label → mean and deviation of regret, reliability and utilization as the paper prints them"
    )
    paper_metrics: bool = Field(False, description="show these three metrics, beside what is printed")

    @property
    def changes(self) -> dict[str, Section]:
        """What differs from params.yaml, by section."""
        return {name: own for name in CHANGEABLE if (own := getattr(self, name))}

    @property
    def swept(self) -> str | None:
        """The key of `matching` that takes several values."""
        return next(iter(self.sweep), None)

    @property
    def values(self) -> tuple[float | None, ...]:
        """What it takes; a single None where nothing is swept."""
        return next(iter(self.sweep.values()), (None,))

    def values_on(self, data: str) -> tuple[float | None, ...]:
        """What it takes on one data set: larger values become the largest that its log has tasks for."""
        most = self.largest.get(data)
        return tuple(dict.fromkeys(v if most is None or v is None else min(v, most) for v in self.values))


class Goal(BaseModel):
    """A ratio of pooled means on test rounds of settings that nothing was tuned on, and what it should reach."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    experiment: str
    method: str = Field(description="a label, or `ours`")
    against: str = Field(description="a label, or `baselines`")
    metric: str = "penalised_excess"
    at_most: float
    at_most_on: dict[str, float] = Field({}, description="data set → what it should reach there instead")
    p_below: float = Field(0.05, description="largest p-value against a ratio of 1")

    def on(self, data: str) -> Goal:
        """The goal as it is for one data set."""
        return self.model_copy(update={"at_most": self.at_most_on.get(data, self.at_most)})


class Choice(BaseModel):
    """Where the best of ours and of the baselines are chosen: test rounds that no table shows and no knob saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    experiment: str = Field(description="whose rows and rounds")
    seeds: tuple[int, ...] = Field(min_length=1, description="none of those that are reported")


class Finding(BaseModel):
    """A sentence of the page about the ratio of two methods; `{ratios}` in it stands for that ratio on each log."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str = Field(pattern=r"\{ratios\}")
    method: str = Field(description="a label, or `ours`")
    against: str = Field(description="a label, or `baselines`")


class Parts(BaseModel):
    """Predictors × rules: the label of a method is that of its predictor, an underscore and that of its rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    predictors: dict[str, str] = Field(description="title → label")
    rules: dict[str, str] = Field(description="title → label, empty for the predictor's own")
    named: dict[str, str] = Field({}, description="label by that rule → the method's name")

    def method(self, predictor: str, rule: str) -> str:
        """The method of two labels."""
        label = f"{predictor}_{rule}" if rule else predictor
        return self.named.get(label, label)

    @property
    def methods(self) -> list[str]:
        """All of them."""
        return [self.method(own, rule) for own in self.predictors.values() for rule in self.rules.values()]


class Headline(BaseModel):
    """The tables and the sentences that open the page."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    experiment: str
    rows: dict[str, tuple[str, ...]] = Field(description="title → methods; of several, the best one")
    parts: Parts | None = Field(None, description="what predictors and rules contribute, a second table")
    metrics_of: str = Field("", description="experiment whose methods are shown by the paper's metrics, a third table")
    follows: tuple[Finding, ...] = ()


class Retired(BaseModel):
    """Goals that no page counts any more."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    reason: str


class Looked(BaseModel):
    """Splits and settings, and how often somebody has read results on them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    at: str
    times: str
    what_for: str


class Speed(BaseModel):
    """CPU seconds of one training, and what they should stay below."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    experiment: str
    method: str
    at_most: float


class Example(BaseModel):
    """The instance of the small example: a feature of each task, and its time on each cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    feature: tuple[float, ...]
    times: tuple[tuple[float, ...], ...]


class StudyFile(BaseModel):
    """A study file, see study.yaml beside this module."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    seeds: int = Field(ge=1)
    settings: int = Field(ge=1, description="A, B, C, … drawn with featurize.settings_seed")
    tuning: tuple[str, ...] = Field(description="settings that may be looked at before the end")
    params: dict[str, Section] = Field({}, description="changes of sections of params.yaml, for all experiments")
    methods: dict[str, Any] = Field({}, description="rows beside those of params.yaml")
    ours: tuple[str, ...]
    baselines: tuple[str, ...]
    choice: Choice
    held_out: HeldOut
    ceilings: tuple[str, ...] = Field((), description="rows with knowledge that no method has")
    experiments: dict[str, Experiment]
    headline: Headline
    looked_at: tuple[Looked, ...] = Field((), description="how often each part of the data has been evaluated")
    example: Example
    goals: tuple[Goal, ...] = ()
    retired: tuple[Retired, ...] = ()
    speed: tuple[Speed, ...] = ()
    deviations: tuple[str, ...] = ()


class StudyPlan:
    """A study over a params file: the settings of every unit of work.

    Args:
        study: the study.
        base: params.yaml.

    Raises:
        SettingsError: the two do not fit: a row, experiment or key that does not exist.
    """

    def __init__(self, study: StudyFile, base: Settings) -> None:
        self.study = study
        over = {**study.params, "featurize": {**study.params.get("featurize", {}), **self._drawn(study)}}
        content = _layered(base.content, over)
        content["methods"] = {**(content.get("methods") or {}), **study.methods}
        self.base = Settings(content, base.where)
        self._check()

    @staticmethod
    def load(path: Path, base: Settings, **changes: Any) -> StudyPlan:
        """Read a study file; `changes` are keys of it that the caller decides.

        Raises:
            SettingsError: a missing file, invalid YAML, or keys that are wrong.
        """
        try:
            content = read_yaml(Path(path), Limits(), expected="a study")
        except DataError as error:
            raise SettingsError(str(error)) from None
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: expected a mapping, got {type(content).__name__}")
        held = content.get("held_out")
        if isinstance(held, dict) and isinstance(named := held.get("names"), str):
            try:
                own = read_yaml(Path(path).with_name(named), Limits(), expected="what is held out, by log")
            except DataError as error:
                raise SettingsError(f"{path}: held_out.names: {error}") from None
            except ValueError:
                raise SettingsError(f"{path}: held_out.names: expected a file beside it, got '{named}'") from None
            content["held_out"] = {**held, "names": own}
        try:
            return StudyPlan(StudyFile(**{**content, **changes}), base)
        except ValidationError as error:
            raise SettingsError(f"{path}: {explain(error)}") from None
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    @staticmethod
    def _drawn(study: StudyFile) -> Section:
        return {
            "seeds": list(range(study.seeds)),
            "settings": study.settings,
            "held_out": study.held_out.families,
        }

    def _check(self) -> None:
        study, known = self.study, self.base.methods
        lists = {f"experiments.{name}.rows": each.rows for name, each in study.experiments.items()}
        lists |= {f"experiments.{name}.figure": each.figure for name, each in study.experiments.items()}
        for key, labels in {OURS: study.ours, BASELINES: study.baselines, "ceilings": study.ceilings, **lists}.items():
            for label in labels:
                if label not in known:
                    raise SettingsError(f"{key}: no method '{label}'; known: {', '.join(known)}")
        names = letters(0, study.settings)
        if (total := study.settings + study.held_out.draws * study.held_out.settings) > len(string.ascii_uppercase):
            raise SettingsError(f"settings and held_out: {total} settings; at most {len(string.ascii_uppercase)}")
        lists = {f"experiments.{name}.settings": each.settings for name, each in study.experiments.items()}
        for key, labels in {"tuning": study.tuning, **lists}.items():
            for label in labels:
                if label not in names:
                    raise SettingsError(f"{key}: no setting '{label}'; known: {', '.join(names)}")
        goals: tuple[Goal | Speed, ...] = (*study.goals, *study.speed)
        for each in goals:
            where = f"goal '{each.text}'"
            if each.experiment not in study.experiments:
                raise SettingsError(
                    f"{where}: no experiment '{each.experiment}'; known: {', '.join(study.experiments)}"
                )
            rows = self.rows(each.experiment)
            for label in (each.method, each.against) if isinstance(each, Goal) else (each.method,):
                if label not in (*rows, OURS, BASELINES):
                    raise SettingsError(f"{where}: no row '{label}' in {each.experiment}; known: {', '.join(rows)}")
        self._check_headline(study.headline)
        if study.choice.experiment not in study.experiments:
            raise SettingsError(f"choice.experiment: '{study.choice.experiment}' is no experiment")
        if reported := set(study.choice.seeds) & set(range(study.seeds)):
            raise SettingsError(
                f"choice.seeds: {min(reported)} is a seed that tables report; take one of at least {study.seeds}"
            )
        for name, experiment in study.experiments.items():
            if experiment.of:
                self._check_view(name, experiment)
            for value in experiment.values:
                settings = self.settings(name, value)
                for section in CHANGEABLE:
                    settings.section(section)

    def _check_headline(self, headline: Headline) -> None:
        if headline.experiment not in self.study.experiments or self.study.experiments[headline.experiment].sweep:
            raise SettingsError(f"headline.experiment: '{headline.experiment}' is no experiment, or has a sweep")
        rows = self.rows(headline.experiment)
        pairs = [label for each in headline.follows for label in (each.method, each.against)]
        pairs += headline.parts.methods if headline.parts else []
        for label in (*(label for labels in headline.rows.values() for label in labels), *pairs):
            if label not in (*rows, OURS, BASELINES):
                raise SettingsError(f"headline: no row '{label}' in {headline.experiment}; known: {', '.join(rows)}")

    def _check_view(self, name: str, view: Experiment) -> None:
        """An experiment of another's results can only have its rows, and change nothing."""
        source = self.study.experiments.get(view.of)
        if source is None or source.of or source.sweep:
            raise SettingsError(f"experiments.{name}.of: '{view.of}' has no jobs of its own, or a sweep")
        strange = [label for label in view.rows if label not in self.rows(view.of)]
        if strange:
            raise SettingsError(f"experiments.{name}.rows: '{strange[0]}' is no row of {view.of}")
        if view.sweep or view.settings or view.changes:
            raise SettingsError(f"experiments.{name}: only rows can differ from {view.of}")

    def choice_settings(self) -> Settings:
        """The params of the jobs that methods are chosen on: all rows to choose from, and no fair comparisons."""
        own = self.settings(self.study.choice.experiment, None).content
        rows = dict.fromkeys((*self.study.ours, *self.study.baselines))
        content = {**own, "methods": {label: self.base.content["methods"][label] for label in rows}}
        content["evaluate"] = {**own["evaluate"], "margins": []}
        return Settings(content, "choice")

    def rows(self, experiment: str) -> tuple[str, ...]:
        """Labels of an experiment's methods."""
        return self.study.experiments[experiment].rows or tuple(self.base.methods)

    def draws_of(self, experiment: str) -> tuple[int | None, ...]:
        """An experiment's draws of test tasks; None where these are part of each seed's split."""
        held_out = self.study.experiments[experiment].held_out
        return tuple(range(self.study.held_out.draws)) if held_out else (None,)

    def settings_of(self, experiment: str, draw: int | None = None) -> tuple[str, ...]:
        """Names of an experiment's settings, all or those of a draw."""
        own, study = self.study.experiments[experiment], self.study
        if own.held_out:
            return study.held_out.letters(study.settings, draw)
        return own.settings or letters(0, study.settings)

    def featurizing(self, data: str, draw: int | None = None) -> Section:
        """Section `featurize` on a log: for experiments without the families held out, or for a draw of test tasks."""
        held = self.study.held_out
        usual: Section = {**self.base.content["featurize"]}
        if names := held.of(data).families:
            usual["held_out_names"] = list(names)
        if draw is None:
            return usual
        own = {"settings": held.draws * held.settings, "settings_after": self.study.settings, "tests_on": "held_out"}
        return {**usual, **own, "seeds": list(range(held.seeds)), "draw": draw}

    def clusters(self, data: str, draw: int | None = None) -> Section:
        """Which clusters of a log an experiment has: all but those held out, or in a draw of test tasks these alone."""
        names = self.study.held_out.of(data).clusters
        return {"names": list(names), "kept": draw is not None} if names else {}

    def settings(self, experiment: str, value: float | None) -> Settings:
        """The params of an experiment's unit of work; `methods` holds its rows alone."""
        own = self.study.experiments[experiment]
        content = _layered(self.base.content, {section: {} for section in CHANGEABLE} | own.changes)
        if value is not None and own.swept is not None:
            whole = own.swept == "tasks" and float(value).is_integer()
            content["matching"] = {**content["matching"], own.swept: int(value) if whole else value}
        content["methods"] = {label: self.base.content["methods"][label] for label in self.rows(experiment)}
        return Settings(content, f"experiments.{experiment}")


def _layered(content: Mapping[str, Any], over: Mapping[str, Section]) -> dict[str, Any]:
    """Sections with changes over them, key by key."""
    return {**content, **{name: {**(content.get(name) or {}), **changes} for name, changes in over.items()}}
