"""How the library is built: small rooms, one name for one thing, short functions, a test for every module."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "mfcp"
MOST_AT_TOP, MOST_IN_A_FOLDER = 13, 16
TWO_MEANINGS = {"Choice", "Finding", "Machines", "Outcome", "Prices", "_Unit"}  # of classes; no more
LINES, LINES_AT_MOST, PARAMETERS = 60, 80, 10
LARGEST_FILE = 300_000  # bytes

# Modules without a test file of their own, each with what tests them instead.
UNMIRRORED: dict[str, str] = {
    "border/bounds.py": "border/test_limits.py tries every one",
    "errors.py": "names of errors, which every test of an error uses",
    "emulator/architectures.py": "emulator/test_zoo.py: parameters and FLOPs of every variant",
    "platform/service/desk.py": "platform/service/test_api.py asks it everything, test_remote.py from afar",
    "platform/service/protocol.py": "limits and types; platform/service/test_api.py",
    "commands/reading.py": "commands/test_check.py and walk/test_walk.py read logs with it, test_extensions.py files",
    "evaluation/benchmark.py": "commands/test_benchmark.py runs it",
    "matching/large/annealing.py": "matching/large/test_plan_search.py: its plans against enumeration",
    "paper/report.py": "paper/test_running.py writes it, to the byte",
    "paper/tracking.py": "paper/test_running.py tracks a study",
    "platform/state/schema.py": "platform/state/test_store.py uses every table",
    **dict.fromkeys(
        (f"simulator/kernels/{name}.py" for name in ("backfilling", "progress", "ranking")),
        "simulator/kernels/test_queueing.py and simulator/clocks/test_events.py: against references",
    ),
    **dict.fromkeys(
        (f"profiling/{name}.py" for name in ("folder", "server", "session", "work")),
        "commands/test_profile.py profiles real models with them",
    ),
    **dict.fromkeys(
        (
            f"stages/{name}.py"
            for name in (
                "base", "evaluate", "featurize", "finetune", "ingest", "pretrain", "release", "report", "validate",
            )
        ),
        "stages/test_run.py runs every stage, stages/test_bad_ends.py makes them fail",
    ),
}  # fmt: skip

FOLDERS = sorted({path.parent for path in SRC.rglob("*.py")})


def files_of(folder: Path) -> list[Path]:
    """The modules right in a folder."""
    return [path for path in folder.glob("*.py") if path.name != "__init__.py"]


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of the library, parsed: when the first test looks at it, for every worker collects this file."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))}


def package_of(path: Path) -> str:
    """The top-level package that a module lies in, or its own name."""
    return path.relative_to(SRC).parts[0]


def repeated(names: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_the_top_of_the_library_is_small() -> None:
    assert len(list(SRC.glob("*.py"))) <= MOST_AT_TOP


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SRC)))
def test_a_folder_is_taken_in_at_a_glance(folder: Path) -> None:
    assert len(files_of(folder)) <= MOST_IN_A_FOLDER


def test_no_two_files_of_a_package_have_one_name() -> None:
    assert not repeated([(package_of(path), path.stem) for folder in FOLDERS for path in files_of(folder)])


def test_no_two_classes_of_a_package_have_one_name() -> None:
    names = [
        (package_of(path), node.name)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    assert not repeated(names)


def test_no_two_packages_have_a_class_of_one_name() -> None:
    own: dict[str, set[str]] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).add(package_of(path))
    assert {name for name, packages in own.items() if len(packages) > 1} <= TWO_MEANINGS


def functions() -> list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def reason_above(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The comment right above a function and its decorators."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)]) - 2
    comment = []
    while first >= 0 and lines[first].lstrip().startswith("#"):
        comment.append(lines[first].strip())
        first -= 1
    return " ".join(reversed(comment))


def test_a_long_function_says_why_and_none_is_longer_than_a_page() -> None:
    for path, function in functions():
        lines = (function.end_lineno or 0) - function.lineno + 1
        where = f"{path.relative_to(ROOT)}: {function.name} has {lines} lines"
        assert lines <= LINES_AT_MOST, where
        assert lines <= LINES or f"Over {LINES} lines:" in reason_above(path, function), where


def test_a_function_with_many_positional_parameters_says_why() -> None:
    for path, function in functions():
        count = len(function.args.posonlyargs) + len(function.args.args)
        where = f"{path.relative_to(ROOT)}: {function.name} has {count} positional parameters"
        assert count <= PARAMETERS or f"Over {PARAMETERS} positional parameters:" in reason_above(path, function), where


def test_every_module_has_a_test_of_its_own_or_a_reason() -> None:
    mirrored = {path: ROOT / "tests" / path.parent.relative_to(SRC) / f"test_{path.name}" for path in trees()}
    without = {
        str(path.relative_to(SRC))
        for path, test in mirrored.items()
        if path.name != "__init__.py" and not test.exists()
    }
    assert without == set(UNMIRRORED), "write the module's test, or say in UNMIRRORED what tests it"
    assert len(UNMIRRORED) <= 32


def test_every_test_file_tests_something_that_is_there() -> None:
    """A mirrored test whose module has moved or gone is found."""
    packages = {path.relative_to(SRC) for path in FOLDERS}
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = test.parent.relative_to(ROOT / "tests")
        apart = folder.as_posix().split("/")[0] in ("flows", "benchmarks", "crashes", "fuzz", "walk")
        assert apart or folder in packages, f"{test}: mirrors no package of mfcp"


def test_a_section_of_settings_is_called_settings() -> None:
    """The word rule is left to decision rules."""
    assert not [
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Rules")
    ]


def test_array_types_have_one_definition() -> None:
    aliases = [
        (path, node.targets[0].id)
        for path, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if re.match(r"NDArray\[np\.(float64|int64|bool_|str_)\]", ast.unparse(node.value))
    ]
    assert {path.name for path, _ in aliases} == {"arrays.py"}


def tracked() -> list[Path]:
    output = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in output.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_is_empty_or_large() -> None:
    """Large results belong to DVC; an empty file is left over from something. The lock is hashes."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked()}
    assert not [name for name, size in sizes.items() if size == 0 and not name.endswith("py.typed")]
    assert not [name for name, size in sizes.items() if size > LARGEST_FILE and name != "requirements.lock"]


UNSAFE = re.compile(
    r"^(eval|exec|compile|__import__|(pickle|cPickle|dill|cloudpickle|marshal|shelve|joblib)\.\w+|torch\.load|yaml\.(unsafe_|full_)?load(_all)?"
    r"|pd\.read_pickle|pandas\.read_pickle|os\.(system|popen))$"
)
EXECUTES = {"border/yaml_text.py": "yaml.load"}  # with a SafeLoader of its own


def test_nothing_that_was_read_is_executed() -> None:
    """No pickle, no eval, no loader that makes objects. What a person names to be executed is imported as a module."""
    for path, tree in trees().items():
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = {name for name in called if UNSAFE.match(name)} - {EXECUTES.get(str(path.relative_to(SRC)), "")}
        assert not found, f"{path}: {', '.join(sorted(found))}"
        picklers = [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
        ]
        assert not picklers, path


def test_imports_are_absolute() -> None:
    for path, tree in trees().items():
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level], path


def test_files_that_comments_and_docstrings_name_exist() -> None:
    """`name.py` in backticks; a module that is renamed takes its mentions along."""
    known = {path.name for folder in ("src", "tests", "benchmarks", "flows") for path in (ROOT / folder).rglob("*.py")}
    for path in trees():
        named = re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", path.read_text(encoding="utf-8"))
        assert set(named) <= known | {"my_net.py"}, f"{path.relative_to(ROOT)}: {set(named) - known}"


def test_values_of_parametrized_tests_do_not_tell_the_time() -> None:
    """They are in the tests' names, which two processes that collect in different seconds must agree on."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for test in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            decorators = test.decorator_list if isinstance(test, ast.FunctionDef) else []
            for call in [node for each in decorators for node in ast.walk(each) if isinstance(node, ast.Call)]:
                named = ast.unparse(call.func)
                given = {keyword.arg for keyword in call.keywords}
                assert named != "gzip.compress" or "mtime" in given, f"{path}: give gzip.compress an mtime"
                assert named not in ("time.time", "datetime.now", "uuid.uuid4"), f"{path}: {named} in a test's name"
