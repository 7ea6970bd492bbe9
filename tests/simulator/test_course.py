"""The books on jobs under a clock of Python."""

import numpy as np

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs


def test_attempts_fail_start_again_and_are_given_up():
    jobs = Jobs.simple(np.zeros(2), np.ones(2), np.full(2, 10.0))
    course = Course(jobs, Cluster.parse("2"), jobs.duration, np.array([[0.5, 0.25], [-1.0, -1.0]]))
    rows, one = course.arrive(), np.ones(2, int)
    assert course.goal.tolist() == [0.5, 0.0]
    course.held[rows] = [5.0, 10.0]
    assert course.end(rows, np.array([5.0, 10.0]), one, one).tolist() == [True, False]
    assert course.goal[0] == 0.25
    course.held[0] = 12.5
    assert course.end(rows[:1], np.array([12.5]), one[:1], one[:1]).tolist() == [False]
    outcome = course.outcome({})
    assert outcome.lost.tolist() == [12.5, 0.0]
    assert outcome.unfinished()["given_up"].tolist() == [0]
    assert outcome.finished[1] == 10


def test_what_is_believed_to_be_left_is_never_nothing_and_unknown_where_it_is():
    jobs = Jobs.simple(np.zeros(3), np.ones(3), np.full(3, 10.0))
    course = Course(jobs, Cluster.parse("3"), np.array([5.0, 20.0, np.nan]), np.empty((3, 0)))
    course.left[:] = 0.5
    left = course.believed_left(np.arange(3))
    assert left[:2].tolist() == [0.005, 1.5]
    assert np.isnan(left[2])
