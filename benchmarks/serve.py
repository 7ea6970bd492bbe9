"""Load test of `mfcp serve`: requests arrive at a fixed rate whether or not earlier ones were answered.

    python benchmarks/serve.py --model data/release --data data/raw

Latency counts from the moment a request was due, so a service that falls behind shows it. Tasks are drawn anew for
every request; their graphs are those of the folder's models, known to the platform, or with --inline sent along.
Requests that are told to come later (503) count as errors. Prints a table, and whether the 99th percentiles are within
150 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

GOAL_S = 0.150


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("data/release"), metavar="DIR", help="a release")
    parser.add_argument(
        "--data", type=Path, default=Path("data/raw"), metavar="DIR", help="log that tasks are drawn of"
    )
    parser.add_argument("--rate", type=float, default=20.0, metavar="R", help="requests a second")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S")
    parser.add_argument("--tasks", type=int, default=20, metavar="N")
    parser.add_argument("--clusters", type=int, default=10, metavar="M")
    parser.add_argument("--paths", nargs="+", default=["predict", "match", "explain"], metavar="PATH")
    parser.add_argument("--inline", action="store_true", help="send the graphs with every request")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for folder, made_by in ((options.model, "dvc repro release"), (options.data, "dvc repro ingest")):
        if not folder.is_dir():
            print(f"skipped: no {folder}; `{made_by}` makes it")
            return 0
    with tempfile.TemporaryDirectory() as folder:
        drawn = Drawn(options)
        service = Service(options.model, Path(folder), drawn)
        gc.freeze()  # the client's stops are not the service's
        try:
            print(f"release {service.version}: {options.tasks} tasks × {options.clusters} clusters")
            print(f"{options.rate:g} requests a second for {options.seconds:g} s each, {os.cpu_count()} cores\n")
            print(f"{'':10}{'requests':>9}{'errors':>8}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}{'CPU/answer':>13}  ms")
            met = True
            for path in options.paths:
                before = service.cpu_s()
                seconds, errors = asyncio.run(load(service.url, path, drawn, options))
                cpu = (service.cpu_s() - before) / max(len(seconds) - errors, 1)
                p50, p90, p99 = np.quantile(seconds, (0.5, 0.9, 0.99)) * 1e3
                print(
                    f"{path:10}{len(seconds):9}{errors:8}{p50:9.1f}{p90:9.1f}{p99:9.1f}{max(seconds) * 1e3:9.1f}"
                    f"{cpu * 1e3:13.1f}",
                    flush=True,
                )
                met &= errors == 0 and p99 <= GOAL_S * 1e3
        finally:
            service.stop()
    print(f"\np99 <= {GOAL_S * 1e3:.0f} ms without errors: {'met' if met else 'missed'}")
    return 0 if met else 1


class Drawn:
    """Tasks of requests: rows of a log with another batch size and another amount of work."""

    def __init__(self, options: argparse.Namespace) -> None:
        from mfcp.data.log.tables import read_tables

        tables = read_tables(options.data)
        tasks = tables["tasks"].drop_duplicates("graph_id")
        self.rows: list[dict[str, Any]] = json.loads(tasks.to_json(orient="records"))
        self.graphs = {name: tables[name] for name in ("nodes", "edges")}
        self.rng = np.random.default_rng(options.seed)
        self.options = options
        self.clusters: list[str] = []
        self.count = 0

    def request(self) -> dict[str, Any]:
        """One body."""
        rows = []
        for k in self.rng.choice(len(self.rows), self.options.tasks):
            row = self.rows[k] | {"task_id": f"t{self.count}", "batch_size": int(2 ** self.rng.integers(3, 9))}
            rows.append(row | {"samples": float(self.rows[k]["samples"] * self.rng.lognormal(0, 0.5))})
            self.count += 1
        own = self.rng.permutation(self.clusters)[: self.options.clusters].tolist()
        body = {"tasks": rows, "clusters": own}
        if self.options.inline:
            used = [row["graph_id"] for row in rows]
            for name, table in self.graphs.items():
                body[name] = json.loads(table[table["graph_id"].isin(used)].to_json(orient="records"))
        return body


class Service:
    """`mfcp serve` in a process of its own, on a platform that has the models' graphs."""

    def __init__(self, model: Path, home: Path, drawn: Drawn) -> None:
        import pandas as pd

        from mfcp.platform.releases.models import Models
        from mfcp.platform.state.store import Store

        store = Store(f"sqlite:///{home / 'platform.db'}")
        store.submit({"tasks": pd.DataFrame(drawn.rows), **drawn.graphs})
        self.version = Models(home, store).add(model, {})
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "mfcp.cli", "serve", "--home", str(home), "--port", str(port)]
        self.process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        while True:
            try:
                health = httpx.get(f"{self.url}/health").json()
            except httpx.TransportError:
                health = {"status": "starting"}
            if health["status"] == "ready":
                break
            if self.process.poll() is not None:
                raise SystemExit("mfcp serve ended; run it by hand to see why")
            time.sleep(0.2)
        drawn.clusters = health["clusters"]
        for path in drawn.options.paths:  # every graph is encoded once before the clock starts, as after a night's work
            for low in range(0, len(drawn.rows), 20):
                body: dict[str, Any] = {"tasks": drawn.rows[low : low + 20]}
                httpx.post(f"{self.url}/v1/{path}", json=body, timeout=60).raise_for_status()

    def cpu_s(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


async def load(url: str, path: str, drawn: Drawn, options: argparse.Namespace) -> tuple[list[float], int]:
    """Seconds from when each request was due to its answer, and how many were not answered as they should."""
    count = round(options.rate * options.seconds)
    body = [
        json.dumps({k: v for k, v in drawn.request().items() if path != "predict" or k != "clusters"}).encode()
        for _ in range(count)
    ]
    seconds, errors = [], 0

    async def one(client: httpx.AsyncClient, content: bytes, due: float) -> None:
        nonlocal errors
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        try:
            answer = await client.post(
                f"{url}/v1/{path}", content=content, headers={"Content-Type": "application/json"}
            )
            errors += answer.status_code != 200
        except httpx.TransportError:
            errors += 1
        seconds.append(time.perf_counter() - due)

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as client:
        begin = time.perf_counter() + 0.2
        await asyncio.gather(*(one(client, own, begin + k / options.rate) for k, own in enumerate(body)))
    return seconds, errors


if __name__ == "__main__":
    sys.exit(main())
