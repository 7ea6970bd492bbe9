"""Who may import whom, what each tool's one door is, and that every DVC stage names the code it runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"

# Lower lines first; a unit (module or package right under mfcp) imports from lower lines only.
LAYERS = (
    {"errors", "telemetry", "progress", "threads"},
    {"files", "registry"},
    {"matching", "tasks"},
    {"emulator"},
    {"data", "predictors", "rules"},
    {"methods"},
    {"evaluation"},
    {"settings", "tracking", "matrices", "user_module"},
    {"release"},
    {"platform"},
    {"capturing", "calibrating", "deciding"},
    {"profiling", "paper"},
    {"stages", "cli"},
)
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}

# The one importer of each tool; flows are outside mfcp.
DOORS = {
    "mlflow": {"src/mfcp/tracking.py"},
    "great_expectations": {"src/mfcp/data/validation.py"},
    "prefect": {
        f"flows/{name}.py" for name in ("ingest", "late", "loop", "match", "monitor", "pipeline", "promote", "retrain")
    },
    "sqlalchemy": {f"src/mfcp/platform/{name}.py" for name in ("database", "schema", "store")},
    "fastapi": {"src/mfcp/platform/api.py"},
    "prometheus_client": {"src/mfcp/platform/api.py"},
    "uvicorn": {"src/mfcp/platform/serving.py"},
    "dvc": {"flows/checkout.py"},
    "river": {"src/mfcp/platform/monitoring.py"},
    "onnx": {"src/mfcp/tasks/onnx_file.py"},
}
HEAVY = ("dvc", "great_expectations", "mlflow", "prefect", "river")

# Plumbing without formulas: a change of it alone makes no result stale.
EXEMPT = {"settings", "tracking", "errors", "registry", "files", "progress", "telemetry", "threads", "stages.base"}


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((SRC / "mfcp").rglob("*.py"))}
PROGRAM = sorted([*(ROOT / "flows").glob("*.py"), *MODULES.values()])


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def run_nodes(node: ast.AST) -> list[ast.AST]:
    """All nodes below but those that only a type checker sees."""
    children = [child for child in ast.iter_child_nodes(node) if not is_type_checking(child)]
    return [node, *(found for child in children for found in run_nodes(child))]


def imported(path: Path, *, run_only: bool = False) -> set[str]:
    """Dotted names that a file imports anywhere, functions included: `from a import b` gives `a.b`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in run_nodes(tree) if run_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_of(name: str) -> str | None:
    """The module of mfcp that a dotted name means or lies in."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"mfcp"}))
def test_a_module_imports_only_from_lower_layers(module: str) -> None:
    unit = module.split(".")[1]
    assert unit in RANK, f"mfcp.{unit} has no layer: give it one in LAYERS"
    for name in imported(MODULES[module]):
        target = module_of(name)
        if target is None or target == "mfcp" or target.split(".")[1] == unit:
            continue
        assert RANK[target.split(".")[1]] < RANK[unit], f"{module} imports {name} from a layer that is not lower"


def test_mfcp_does_not_know_the_flows() -> None:
    assert not [path for path in MODULES.values() if any(name.split(".")[0] == "flows" for name in imported(path))]


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
    code = "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in MODULES)
    assert not loaded_after(code) & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    """What keeps `mfcp --help` below half a second, whatever the machine."""
    code = "from mfcp.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code"
    third_party = loaded_after(code) - loaded_after("") - set(sys.stdlib_module_names) - {"mfcp"}
    assert not third_party, f"mfcp --help imports {sorted(third_party)}"


def is_namespace(path: Path) -> bool:
    """Whether a package's `__init__` only lists names, at most to import them when they are first used."""
    return path.name == "__init__.py" and not any(name.startswith("mfcp.") for name in imported(path, run_only=True))


@cache
def closure(module: str) -> frozenset[str]:
    """Modules that run with this one, and itself; `import_members` brings all of a package."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or name == "mfcp" or is_namespace(MODULES[name]) or name.removeprefix("mfcp.") in EXEMPT:
            continue
        found.add(name)
        waiting += [target for entry in imported(MODULES[name], run_only=True) if (target := module_of(entry))]
        waiting.append(name.rpartition(".")[0])
        for package in named_packages(MODULES[name]):
            waiting += [other for other in MODULES if other.startswith(f"{package}.")]
    return frozenset(found)


def named_packages(path: Path) -> set[str]:
    """Packages of mfcp that stand as text in calls of `import_members`, directly or through a loop variable."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not any(name.endswith(".import_members") for name in imported(path)):
        return set()
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if text in MODULES and MODULES[text].name == "__init__.py"}


def stages() -> dict[str, tuple[frozenset[str], list[str]]]:
    """Stage → the modules that run in it, and those of its deps that are code of ours.

    Settings are plumbing, but reading the rows of `methods` loads the family with all its members.
    """
    entries = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    result = {}
    for name, entry in entries.items():
        stage = entry.get("do", entry)
        modules = closure(stage_module(stage))
        if any(param.split(".")[0] == "methods" for param in stage["params"]):
            modules |= closure("mfcp.methods.base")
        result[name] = (modules, [dep for dep in stage["deps"] if dep.startswith("src/")])
    return result


def stage_module(stage: dict[str, str]) -> str:
    words = stage["cmd"].split()
    return words[words.index("-m") + 1]


def covers(dep: str, module: str) -> bool:
    path = MODULES[module].relative_to(ROOT)
    return path == Path(dep) or Path(dep) in path.parents


STAGES = stages()


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stages_deps_are_the_code_it_runs(stage: str) -> None:
    modules, deps = STAGES[stage]
    for dep in deps:
        assert (ROOT / dep).exists(), f"dvc.yaml: {stage}: no {dep}"
    missing = sorted(name for name in modules if not any(covers(dep, name) for dep in deps))
    assert not missing, f"dvc.yaml: {stage} runs {', '.join(missing)}; add to its deps"
    idle = [dep for dep in deps if not any(covers(dep, name) for name in modules)]
    assert not idle, f"dvc.yaml: {stage} runs nothing of {', '.join(idle)}; a change there need not rerun it"


def test_editing_the_evaluation_does_not_retrain() -> None:
    assert not [dep for dep in STAGES["finetune"][1] if "evaluation" in dep]


def test_every_stage_module_is_a_stage_of_the_pipeline() -> None:
    files = {name for name in MODULES if name.startswith("mfcp.stages.")} - {"mfcp.stages.base"}
    assert files <= {name for modules, _ in STAGES.values() for name in modules}
