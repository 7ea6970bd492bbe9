"""A simulated platform: submits tasks, runs them where they were assigned, and returns logs as their owners would.

`python -m mfcp.platform.simulation.simulator --home H` runs it until it is interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mfcp.arrays import Floats
from mfcp.border.json_text import read_json
from mfcp.data.log.tables import Tables, write_tables
from mfcp.errors import SettingsError, guarded
from mfcp.files import replacing_folder, sqlite_url, write_json
from mfcp.platform.simulation.queues import ClusterQueues
from mfcp.platform.simulation.world import DAY, HOUR, SimulatedRun, SimulatorSettings, World, number_of
from mfcp.platform.state.store import Store
from mfcp.registry import explain
from mfcp.threads import allow_processes


class Simulator:
    """One platform's users and clusters.

    Its state is in `home`/simulator.json; time on the platform goes on only while it runs. A step that was cut short
    anywhere is taken again after a restart: the same tasks are submitted, and the same logs delivered, again.

    Args:
        home: the platform's folder; the first log is delivered to its inbox when it is new.
        store: the platform's state.
        settings: what is simulated.

    Raises:
        SettingsError: `home` has the simulation of another seed.
    """

    def __init__(self, home: Path, store: Store, settings: SimulatorSettings) -> None:
        self.home, self.store, self.settings = Path(home), store, settings
        self.world = World(settings, self.home / "simulator")
        self._file = self.home / "simulator.json"
        for unfinished in (self.home / "inbox").glob(".simulated-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        if self._file.exists():
            self.state: dict[str, Any] = read_json(self._file)
            if self.state["seed"] != settings.seed:
                raise SettingsError(
                    f"{self._file} is of seed {self.state['seed']}, not {settings.seed}; name another home"
                )
            self.queues = ClusterQueues(settings.policy, settings.servers, self.state.setdefault("queues", {}))
            return
        self._deliver(0, self.world.history())
        self.state = {"seed": settings.seed, "clock": 0.0, "submitted": 0, "next": 0.0, "delivery": 0.0}
        self.state |= {
            "round": 0,
            "back": 0,
            "offline": [],
            "queues": {},
            "running": [],
            "outgoing": [],
            "deliveries": 1,
        }
        self.queues = ClusterQueues(settings.policy, settings.servers, self.state["queues"])
        self._save()

    def step(self, seconds: float) -> None:
        """Let so many real seconds pass, `speed` times as many on the platform."""
        state = self.state
        self._send()  # what a killed step left
        state["clock"] += seconds * self.settings.speed
        self._submit()
        offline = self.world.offline(state["clock"])
        if offline != state["offline"]:
            self.store.set_online({cluster: cluster not in offline for cluster in self.world.clusters})
            state["offline"] = offline
        self._start()
        self._measure()
        if state["clock"] >= state["delivery"]:
            running = [SimulatedRun(*run) for run in state["running"]]
            state["outgoing"] = [astuple(run) for run in running if run.end <= state["clock"]]
            state["running"] = [astuple(run) for run in running if run.end > state["clock"]]
            state["delivery"] = state["clock"] + self.settings.delivery_hours * HOUR
        self._save()
        self._send()

    @property
    def status(self) -> str:
        """One line."""
        state = self.state
        assigned = sum(run[2] == self.settings.trial_runs for run in state["running"])
        away = f", offline: {', '.join(state['offline'])}" if state["offline"] else ""
        return (
            f"day {state['clock'] / DAY:.2f}: {state['submitted']} tasks submitted, "
            f"{state['submitted'] - state['back'] - assigned} wait, {assigned} run, {state['back']} back "
            f"in {state['deliveries']} deliveries{away}"
        )

    def _submit(self) -> None:
        """The tasks that have arrived; runs on trial are back at once."""
        state, first, moments = self.state, self.state["submitted"], []
        while state["next"] <= state["clock"]:
            moments.append(state["next"])
            state["next"] += self.world.gap(first + len(moments) - 1)
        if not moments:
            return
        tables = self.world.tasks(range(first, first + len(moments)))
        self.store.submit(tables)
        for task_id, moment in zip(tables["tasks"]["task_id"], moments, strict=True):
            state["running"] += [astuple(run) for run in self.world.trials(task_id, moment)]
        state["submitted"] += len(moments)

    def _start(self) -> None:
        """Assigned tasks queue on their clusters, whose schedulers say when each runs."""
        state, queues = self.state, self.queues
        new = self.store.assignments(after=state["round"])
        mine: dict[str, list[str]] = {}
        for task_id, cluster in zip(new["task_id"], new["cluster_id"], strict=True):
            if number_of(task_id) >= 0:
                mine.setdefault(cluster, []).append(task_id)
        ends = {run[0]: run[4] for run in state["running"] if run[2] == self.settings.trial_runs}
        for cluster, tasks in mine.items():
            done = {task: ends.get(task, 0.0) for task, _ in queues.waiting.get(cluster, [])}
            queues.forget(cluster, done, state["clock"])
            for task in tasks:
                queues.add(cluster, task, state["clock"])
            times = queues.times(cluster, partial(self._durations, cluster))
            attempt = self.settings.trial_runs
            state["running"] = [run for run in state["running"] if run[0] not in times or run[2] < attempt]
            back = {task for task, end in done.items() if end == 0.0}  # logs of these have been delivered
            state["running"] += [(task, cluster, attempt, *each) for task, each in times.items() if task not in back]
        state["round"] = max([state["round"], *new["round_id"].tolist()])

    def _measure(self) -> None:
        """Steps that rounds ask for are run when they are asked for; an answer is given once, whoever was killed."""
        state, ends = self.state, self.state.get("measuring", {})
        state["measuring"] = {}
        for row in self.store.measurements(open_only=True).to_dict("records"):
            number, task, cluster = row["id"], row["task_id"], row["cluster_id"]
            if number_of(task) < 0:
                continue
            end = ends.get(str(number), state["clock"] + row["takes_s"])
            if cluster in state["offline"]:
                self.store.answer(number, error=f"{cluster} is offline")
            elif state["clock"] < end:
                state["measuring"][str(number)] = end
            else:
                runs = self.world.runs([SimulatedRun(task, cluster, 0, state["clock"], state["clock"])])
                seconds, status = runs["step_time_s"].iloc[0], runs["status"].iloc[0]
                known = {"error": str(status)} if seconds != seconds else {"step_time_s": float(seconds)}
                self.store.answer(number, **known)

    def _durations(self, cluster: str, tasks: list[str], begin: Floats) -> Floats:
        """(k,) seconds of tasks that start on a cluster at these moments."""
        runs = [SimulatedRun(t, cluster, self.settings.trial_runs, b, b) for t, b in zip(tasks, begin, strict=True)]
        seconds: Floats = self.world.runs(runs)["duration_s"].to_numpy(float)
        return seconds

    def _send(self) -> None:
        """Deliver what is outgoing; where a kill has it delivered twice, its content is the same."""
        state, runs = self.state, [SimulatedRun(*run) for run in self.state["outgoing"]]
        if not runs:
            return
        tasks = self.world.tasks(sorted({number_of(run.task_id) for run in runs}))
        self._deliver(state["deliveries"], tasks | {"runs": self.world.runs(runs)})
        state["back"] += sum(run.attempt == self.settings.trial_runs for run in runs)
        state["deliveries"] += 1
        state["outgoing"] = []
        self._save()

    def _deliver(self, number: int, tables: Tables) -> None:
        with replacing_folder(self.home / "inbox" / f"simulated-{number:06d}") as folder:
            write_tables(tables, folder)

    def _save(self) -> None:
        write_json(self._file, self.state)


def main(arguments: list[str] | None = None) -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m mfcp.platform.simulation.simulator", description=SimulatorSettings.__doc__
    )
    parser.add_argument("--home", type=Path, required=True, metavar="H", help="folder of the platform")
    parser.add_argument("--database", metavar="URL", help="default: H/platform.db")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between steps (1)")
    for name, field in SimulatorSettings.model_fields.items():
        many = "*" if isinstance(field.default, tuple) else None
        described = f"{field.description} ({field.default})"
        parser.add_argument(f"--{name.replace('_', '-')}", nargs=many, default=field.default, help=described)
    options = vars(parser.parse_args(arguments))
    home, database, every = options.pop("home"), options.pop("database"), options.pop("every")
    try:
        settings = SimulatorSettings(**options)
    except ValidationError as error:
        raise SettingsError(explain(error)) from None
    home.mkdir(parents=True, exist_ok=True)
    new = not (home / "simulator.json").exists()
    simulator = Simulator(home, Store(database or sqlite_url(home / "platform.db"), make=new), settings)
    last, reported = time.monotonic(), 0
    while True:
        now = time.monotonic()
        simulator.step(now - last)
        last = now
        if sys.stdout.isatty():
            print(f"\r{simulator.status:<120}", end="", flush=True)
        elif simulator.state["deliveries"] > reported:
            reported = simulator.state["deliveries"]
            print(simulator.status, flush=True)
        time.sleep(max(0.0, every - (time.monotonic() - now)))


if __name__ == "__main__":
    allow_processes()
    raise SystemExit(guarded(main))
