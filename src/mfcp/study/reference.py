"""The reference solve: the two numbers of a setting that need a matching solver, gamma and the unit of makespans.

Everything else in this package is data. Stages that read neither number do not depend on a solver.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mfcp.arrays import Floats
from mfcp.matching.planning import quick, solve_or_fall_back
from mfcp.matching.problem import reliability
from mfcp.study.setting import RoundSettings, Setting
from mfcp.study.study_data import Study


def solved_setting(study: Study, name: str, matching: RoundSettings, *, price: float, exact: bool = False) -> Setting:
    """The named setting of a study with its gamma; arguments as `Study.setting`."""
    return with_gamma(study.setting(name, matching, price=price, exact=exact))


def with_gamma(setting: Setting, *parts: str) -> Setting:
    """The setting with gamma (S,) from the labels of rounds of some parts, by default of each seed's validation tasks.

    gamma is the quantile `matching.gamma_quantile` of the reliability of the time-optimal plans, so that it binds in
    that share of the rounds.
    """
    rounds = setting.rounds(parts or ("validation",), setting.matching.validation_rounds)
    time_optimal = replace(setting, gamma=np.zeros(len(setting.seeds))).problem(rounds)
    plans = solve_or_fall_back(time_optimal).assignment
    reached = reliability(plans, time_optimal.A).reshape(rounds.shape[:2])
    return replace(setting, gamma=np.quantile(reached, setting.matching.gamma_quantile, axis=1))


def fastest(setting: Setting, part: str, count: int) -> Floats:
    """(S, count) seconds of the fastest plans of one part's rounds: the unit in which makespans are measured.

    The plans are those of the engine `quick` of `mfcp.matching.planning`. They are found once for all methods.

    Args:
        setting: with its gamma.
        part: "train", "validation" or "test".
        count: rounds per seed.
    """
    known = setting.reference_makespans
    if (part, count) not in known:
        problem = setting.problem(setting.rounds(part, count))
        makespans = solve_or_fall_back(problem, quick(problem)).makespan
        known[part, count] = makespans.reshape(len(setting.seeds), count)
    return known[part, count]
