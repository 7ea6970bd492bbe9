"""Shards: threads change no bit."""

from matching.large.rounds import unrelated

from mfcp.matching.large import shards
from mfcp.matching.large.pricing import price
from mfcp.matching.large.shards import Threads


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(shards, "_WORTH", 500)
    problem = unrelated(12, 700, 8)
    one, two = (price(problem, time_limit=60.0, place=lambda data, width, n=n: Threads(data, width, n)) for n in (1, 2))
    assert one.bound == two.bound
    assert (one.candidates.cluster == two.candidates.cluster).all()
    assert (one.candidates.share == two.candidates.share).all()
