"""A typo in params.yaml is an error that names file and key path; nothing is guessed."""

from pathlib import Path

import pytest
import yaml

from mfcp.errors import SettingsError
from mfcp.settings import SECTIONS, Settings

SHIPPED = Path(__file__).parents[1] / "params.yaml"


def changed(**sections):
    return Settings(yaml.safe_load(SHIPPED.read_text()) | sections)


def test_the_shipped_file_is_valid_in_every_section():
    settings = Settings.load(SHIPPED)
    for name in SECTIONS:
        assert settings.section(name) is not None
    contract = {"tam", "tsm", "tsm_log", "ucb", "mfcp_ad", "mfcp_fg", "tsm_log_margin", "tsm_log_bayes"}
    assert contract <= set(settings.methods)


def test_every_section_of_the_shipped_file_is_read_by_someone():
    assert set(yaml.safe_load(SHIPPED.read_text())) <= {*SECTIONS, "methods"}


@pytest.mark.parametrize(
    ("section", "value", "words"),
    [
        ("matching", {"taks": 5}, "matching.taks: unknown key; remove it"),
        ("matching", {"tasks": 0}, "matching.tasks: .*greater than or equal to 1"),
        ("matching", {"gamma_quantile": "high"}, "matching.gamma_quantile: .*valid number"),
        ("evaluate", {1: 2}, "evaluate: keys must be text"),
        ("featurize", {"encoder": {"kind": "gmm"}}, "featurize: unknown encoder kind 'gmm'; known: gnn, none"),
        ("pretrain", {"predictor": {"kind": "mlp", "hiden": 3}}, "pretrain: predictor 'mlp': hiden: unknown key"),
    ],
)
def test_a_wrong_section_is_named(section, value, words):
    with pytest.raises(SettingsError, match=f"params.yaml: {words}"):
        changed(**{section: value}).section(section)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kind": "two_stages"}, "unknown method kind 'two_stages'; known: .*task_agnostic, two_stage"),
        ({"kind": "two_stage", "los": "time"}, "method 'two_stage': los: unknown key"),
        ({"kind": "two_stage", "rule": {"kind": "margins"}}, "unknown rule kind 'margins'"),
        ({"kind": "decision_focused", "gradient": {"kind": "magic"}}, "unknown gradient kind 'magic'"),
        ({"kind": "decision_focused", "beta": -1}, "beta: .*greater than 0"),
        ({"loss": "time"}, "expected a kind or a mapping with 'kind'"),
        (5, "expected a kind"),
    ],
)
def test_a_wrong_method_names_its_row(row, words):
    with pytest.raises(SettingsError, match=f"methods.mine: .*{words}"):
        changed(methods={"mine": row}).methods  # noqa: B018


@pytest.mark.parametrize("wrong", [[1, 2], "text", 3])
@pytest.mark.parametrize("section", [*SECTIONS, "methods"])
def test_a_section_that_is_no_mapping_is_named_at_once(section, wrong):
    with pytest.raises(SettingsError, match=f"params.yaml: {section}: expected a mapping, got {type(wrong).__name__}"):
        changed(**{section: wrong})


def test_unknown_section_lists_the_known_ones():
    with pytest.raises(SettingsError, match="unknown section 'finetuning'; known: ingest"):
        changed(finetuning={})


def test_unreadable_files_are_named(tmp_path):
    path = tmp_path / "params.yaml"
    with pytest.raises(SettingsError, match="no such file"):
        Settings.load(path)
    path.write_text("a: [1, 2")
    with pytest.raises(SettingsError, match="not valid YAML"):
        Settings.load(path)
    path.write_text("- a\n- b\n")
    with pytest.raises(SettingsError, match="expected a mapping of sections, got list"):
        Settings.load(path)
    path.write_bytes(b"\xff\xfea")
    with pytest.raises(SettingsError, match="not valid YAML"):
        Settings.load(path)


def test_a_row_survives_its_own_spec():
    from mfcp.methods.base import Method

    for method in Settings.load(SHIPPED).methods.values():
        assert Method.parse(method.spec()) == method
