"""The clusters that this machine is."""

from mfcp.profiling.machine import cluster, places
from mfcp.threads import cores


def test_this_machine_is_a_cpu_with_memory_and_cores():
    (place,) = places("cpu")
    assert place["cores"] == cores() >= 1
    assert place["memory_bytes"] > 2**28


def test_a_cluster_is_named_by_what_its_times_hang_on():
    (place,) = places("cpu")
    same = cluster(place | {"memory_bytes": place["memory_bytes"] + 4096}, 2, None)
    assert cluster(place, 2, None)["cluster_id"] == same["cluster_id"]
    others = [
        cluster(place, 1, None),
        cluster(place, 2, 2**30),
        cluster(place | {"torch": "0.0"}, 2, None),
        cluster(place | {"accelerator": "another"}, 2, None),
    ]
    assert len({row["cluster_id"] for row in (same, *others)}) == 5
    assert others[1]["memory_bytes"] == 2**30
