"""Who may import whom, what each tool's one door is, and that every DVC stage names the code it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mfcp.paper.code_closure import closure, imported, module_of, modules, stage_code

ROOT = Path(__file__).parents[1]

# A unit is a module or package right under its parent. It imports only from units of lower lines: no circle among
# units, and none within a line.
LAYERS = {
    "mfcp": (
        {"arrays", "environment", "errors"},
        {"compiling", "progress", "threads"},
        {"border", "files", "folds", "registry"},
        {"matching", "tasks"},
        {"emulator"},
        {"data"},
        {"study", "predictors", "rules"},
        {"methods"},
        {"evaluation"},
        {"settings", "tracking"},
        {"executors", "release"},
        {"simulator"},
        {"platform"},
        {"profiling", "paper"},
        {"stages"},
        {"commands"},
        {"cli"},
    ),
    "mfcp.matching": (
        {"checks", "clock", "normal"},
        {"problem"},
        {"bounds", "kernels", "regret", "speedup"},
        {"ties"},
        {"integer", "large", "relaxed"},
        {"decomposition", "reference"},
        {"engines"},
        {"planning"},
        {"__main__", "expected", "infeasible"},
    ),
    "mfcp.tasks": ({"capture", "graphs"}, {"timing"}, {"features", "memory"}),
    "mfcp.data": ({"log"}, {"pool"}, {"sources"}, {"emulator_calibration", "validated_log"}),
    "mfcp.simulator": (
        {"cluster", "jobs", "kernels", "luck", "placement", "qore", "semantics"},
        {"batches", "beliefs", "configurations", "event_log", "pairs"},
        {"outcome", "traces"},
        {"policies"},
        {"course"},
        {"clocks", "comparing", "explaining"},
        {"simulation", "timeline"},
        {"__main__"},
    ),
    "mfcp.platform": (
        {"state"},
        {"intake", "releases"},
        {"deciding", "running"},
        {"service", "simulation"},
        {"page", "settings"},
    ),
}

# The one importer of each tool; flows are outside mfcp.
DOORS = {
    "mlflow": {"src/mfcp/tracking.py"},
    "great_expectations": {"src/mfcp/data/log/expectations.py"},
    "prefect": {
        f"flows/{name}.py"
        for name in (
            "ingest",
            "late",
            "loop",
            "match",
            "monitor",
            "pipeline",
            "promote",
            "retrain",
            "run",
        )
    },
    "sqlalchemy": {f"src/mfcp/platform/state/{name}.py" for name in ("attempts", "database", "schema", "store")},
    "fastapi": {"src/mfcp/platform/service/api.py"},
    "prometheus_client": {"src/mfcp/platform/service/api.py"},
    "uvicorn": {"src/mfcp/commands/operating/listening.py"},
    "dvc": {"flows/checkout.py"},
    "river": {"src/mfcp/platform/releases/monitoring.py"},
    "onnx": {"src/mfcp/tasks/capture/onnx_file.py"},
    "torch_geometric": {"src/mfcp/tasks/features/convolutions.py"},
}
HEAVY = ("dvc", "great_expectations", "mlflow", "prefect", "river")

PROGRAM = sorted([*(ROOT / "flows").glob("*.py"), *modules().values()])


def unit_below(package: str, module: str) -> str | None:
    """The unit right under a package that a module is or lies in."""
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else None


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_units_import_only_from_lower_layers(package: str) -> None:
    rank = {unit: height for height, units in enumerate(LAYERS[package]) for unit in units}
    found = {unit for module in modules() if (unit := unit_below(package, module))}
    assert found <= set(rank), f"{package}: give {sorted(found - set(rank))} a layer in LAYERS"
    for module, path in modules().items():
        unit = unit_below(package, module)
        for name in imported(path) if unit else ():
            target = unit_below(package, module_of(name) or "")
            if target and target != unit:
                assert rank[target] < rank[unit], f"{module} imports {name} from a layer that is not lower"


def test_no_imports_run_in_a_circle() -> None:
    """Imports within functions and those of a type checker count as well."""
    imports = {name: {module_of(entry) for entry in imported(path)} - {None} for name, path in modules().items()}
    reached = {name: targets - {name} for name, targets in imports.items()}
    changed = True
    while changed:
        changed = False
        for targets in reached.values():
            further = set[str]().union(*(reached[target] for target in targets)) - targets
            changed |= bool(further)
            targets |= further
    assert not [name for name, targets in reached.items() if name in targets]


def test_mfcp_does_not_know_the_flows() -> None:
    assert not [path for path in modules().values() if any(name.split(".")[0] == "flows" for name in imported(path))]


@pytest.mark.parametrize("tool", sorted(DOORS))
def test_a_tool_has_one_door(tool: str) -> None:
    users = {
        str(path.relative_to(ROOT)) for path in PROGRAM if any(name.split(".")[0] == tool for name in imported(path))
    }
    assert users == DOORS[tool]


def loaded_after(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after `code`."""
    program = f"import sys\n{code}\nprint('loaded', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout
    return set(output.rpartition("loaded")[2].split())


def test_the_whole_library_loads_without_the_pipelines_tools() -> None:
    code = "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in modules())
    assert not loaded_after(code) & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    """What keeps `mfcp --help` below half a second, whatever the machine."""
    code = "from mfcp.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code"
    third_party = loaded_after(code) - loaded_after("") - set(sys.stdlib_module_names) - {"mfcp"}
    assert not third_party, f"mfcp --help imports {sorted(third_party)}"


def stage_deps() -> dict[str, list[str]]:
    """Stage → those of its deps that are code of ours."""
    entries = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    return {
        name: [dep for dep in entry.get("do", entry)["deps"] if dep.startswith("src/")]
        for name, entry in entries.items()
    }


def covered(dep: str) -> set[str]:
    """The modules that a dependency, a file or a folder, stands for."""
    path = ROOT / dep
    assert path.exists(), f"dvc.yaml: no {dep}"
    return {name for name, file in modules().items() if file == path or path in file.parents}


def is_namespace(name: str) -> bool:
    return modules()[name].name == "__init__.py"


@pytest.mark.parametrize("stage", sorted(stage_deps()))
def test_a_stages_deps_are_the_code_it_runs_and_no_more(stage: str) -> None:
    """A folder may stand for its files where the stage runs every one of them."""
    deps, run = stage_deps()[stage], stage_code(stage)
    for dep in deps:
        idle = sorted(name for name in covered(dep) - run if not is_namespace(name))
        assert not idle, f"dvc.yaml: {stage} does not run {', '.join(idle)} of {dep}; name the files that it runs"
    missing = sorted(run.difference(*map(covered, deps)))
    assert not missing, f"dvc.yaml: {stage} runs {', '.join(missing)}; add to its deps"


@pytest.mark.parametrize("stage", ["validate", "featurize", "pretrain", "report"])
def test_a_change_of_a_solver_leaves_the_stages_fresh_that_solve_nothing(stage: str) -> None:
    solvers = ("mfcp.matching.large", "mfcp.matching.engines", "mfcp.matching.planning", "mfcp.matching.relaxed")
    assert not [name for name in stage_code(stage) if name.startswith(solvers)]


def test_operation_never_touches_what_experiments_invent() -> None:
    """Drawn pool sizes, samples and failures are the study's: no release, answer or flow of a platform runs them."""
    invents = ("mfcp.study.invented", "mfcp.study.study_pool", "mfcp.emulator.platform", "mfcp.data.sources.emulator")
    operation = [
        f"mfcp.commands.{name}" for name in ("check", "init", "match", "release", "operating.serve", "operating.ui")
    ]
    operation += [name for name in modules() if name.startswith(("mfcp.release.", "mfcp.platform."))]
    simulated = ("mfcp.platform.simulation", "mfcp.platform.settings")  # the clusters of `make platform`
    for name in operation:
        if not name.startswith(simulated):
            assert not [own for own in closure(name) if own.startswith(invents)], name
    assert not [own for own in stage_code("release") if own.startswith(invents)]
    for path in (ROOT / "flows").glob("*.py"):
        assert not [own for own in imported(path) if own.startswith(invents)], path


def test_every_stage_module_is_a_stage_of_the_pipeline() -> None:
    files = {name.rpartition(".")[2] for name in modules() if name.startswith("mfcp.stages.")} - {"base"}
    assert files == set(stage_deps())
