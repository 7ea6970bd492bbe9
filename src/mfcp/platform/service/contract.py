"""What the decision service can answer, as its OpenAPI document declares it."""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from mfcp.platform.deciding.explaining import Option


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LogFacts(_Answer):
    """The log that a release learned from."""

    digest: str | None = Field(description="SHA-256 of its files")
    name: str | None
    first_run: str | None = Field(description="date")
    last_run: str | None = Field(description="date")
    tasks: int | None = Field(description="that were learned")
    runs: int | None = Field(description="that finished")
    runs_per_cluster: dict[str, int] | None


class Provenance(_Answer):
    """What an answer rests on."""

    emulated: bool = Field(description="the log's runs never took place")
    version: str = Field(description="of the release")
    log: LogFacts
    interval: float = Field(description="probability of the stated intervals")
    not_measured: list[str] = Field(description="what of the answer rests on nothing measured")


class ClusterPrediction(_Answer):
    """One cluster for one task; reliabilities are null where nothing is known of them."""

    cluster_id: str
    seconds: float
    seconds_low: float
    seconds_high: float
    reliability: float | None
    reliability_low: float | None
    reliability_high: float | None


class TaskPrediction(_Answer):
    """One task on every cluster."""

    task_id: str
    clusters: list[ClusterPrediction]


class PredictAnswer(Provenance):
    """Times and reliabilities."""

    tasks: list[TaskPrediction]


class MovedBy(_Answer):
    """An observed run that moved a predicted time."""

    task_id: str
    cluster_id: str
    factor: float = Field(description="by which it changes the time")


class Nomination(ClusterPrediction):
    """The cluster that is named for a task."""

    task_id: str
    moved_by: list[MovedBy] = Field(description="the observed runs that moved its time most, at most three")


class MatchAnswer(Provenance):
    """A plan; gamma and reliability are null where nothing is known of reliability."""

    rule: str
    status: str = Field(description="optimal, feasible, or short where the plan is predicted to miss gamma")
    backlog: dict[str, float] = Field(description="seconds for which clusters are busy before; without idle ones")
    gamma: float | None
    reliability: float | None
    makespan: float = Field(description="seconds")
    lower_bound: float = Field(description="seconds that no such plan can undercut")
    gap: float
    offline: list[str]
    tasks: list[Nomination]


class Prices(_Answer):
    """What is scarce in the round: seconds per second of load, and per unit of gamma."""

    cluster: dict[str, float]
    reliability: float


_OPTION: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Option).items()}
OptionAnswer: Any = create_model("OptionAnswer", __base__=_Answer, **_OPTION)


class TaskExplanation(_Answer):
    """Why a task goes where it goes, and what would change that."""

    task_id: str
    options: list[OptionAnswer]
    text: str


class ExplainAnswer(MatchAnswer):
    """A plan and the case for it."""

    prices: Prices
    explanations: list[TaskExplanation]


class WrongField(_Answer):
    """A field of a request that breaks its schema."""

    field: str
    expected: str
    got: str


class ErrorAnswer(_Answer):
    """What is wrong; `problems` and `fields` where a request breaks its schema."""

    error: str
    problems: int | None = None
    fields: list[WrongField] | None = None


class Ready(_Answer):
    """A release decides."""

    status: Literal["ready"]
    version: str
    clusters: list[str]
    warning: str | None = None


class NotReady(_Answer):
    """None does yet."""

    status: Literal["not ready"]
    reason: str


_ERRORS: dict[int, str] = {
    400: "The body is not JSON in UTF-8.",
    401: "The token is missing or wrong.",
    404: "A cluster, graph or task is named that is not there.",
    409: "Rows or wishes contradict each other, or cannot be met.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The request is not application/json.",
    421: "The service is not to be reached under this host name.",
    422: "The request breaks this schema.",
    500: "A fault of the service; its log has it.",
    503: "No release decides yet, no cluster is online, or too many requests wait. Come again later.",
}
ANSWERS: dict[str, type[BaseModel]] = {"predict": PredictAnswer, "match": MatchAnswer, "explain": ExplainAnswer}


def declared(answer: str, *, token: bool) -> dict[int | str, dict[str, Any]]:
    """Every response of an operation, for its OpenAPI document.

    Args:
        answer: predict, match or explain.
        token: whether one is asked for.
    """
    errors = {status: text for status, text in _ERRORS.items() if token or status != 401}
    made: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": text} for status, text in errors.items()
    }
    return {200: {"model": ANSWERS[answer], "description": ANSWERS[answer].__doc__}} | made
