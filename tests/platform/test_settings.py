"""The section `platform` of params.yaml."""

import pytest
from pydantic import ValidationError

from mfcp.platform.settings import PlatformSettings


def test_what_is_not_given_has_its_usual_value_and_what_is_unknown_is_refused():
    settings = PlatformSettings(every_s={"match": 1.5})
    assert settings.every_s.match == 1.5
    assert settings.every_s.retrain == PlatformSettings().every_s.retrain > 0
    for wrong in ({"every_s": {"match": -1}}, {"every_s": {"mach": 1}}, {"monitor": {"window": 0}}, {"rounds": 3}):
        with pytest.raises(ValidationError):
            PlatformSettings(**wrong)


def test_clusters_that_are_named_are_run_on_unless_somebody_says_never():
    clusters = {"here": {"executor": {"kind": "local", "folder": "tasks", "slots": 1}}}
    assert PlatformSettings().every_s.run == 0
    assert PlatformSettings(clusters=clusters, every_s={"match": 15}).every_s.run == 60
    assert PlatformSettings(clusters=clusters, every_s={"run": 0}).every_s.run == 0
    assert PlatformSettings(clusters=clusters).every_s.match == PlatformSettings().every_s.match


def test_an_engine_that_could_not_match_a_round_is_refused_before_there_is_one():
    clusters = {"here": {"executor": {"kind": "local", "folder": "tasks", "slots": 1}}}
    with pytest.raises(ValidationError, match=r"match\.engine: unknown engine kind 'exakt'; known: .*exact"):
        PlatformSettings(match={"engine": "exakt"})
    with pytest.raises(ValidationError, match=r"match\.engine: engine 'search' cannot take backlog.*'auto'"):
        PlatformSettings(match={"engine": "search"}, clusters=clusters)
    assert PlatformSettings(match={"engine": "search"}).match.engine == "search"
    for engine in ("auto", "exact", "milp", "dual", "greedy", "admm"):
        assert PlatformSettings(match={"engine": engine}, clusters=clusters).match.engine == engine
