"""The clusters that this machine is."""

import pytest

from mfcp.profiling.machine import cluster, driver, places
from mfcp.threads import cores


def test_this_machine_is_a_cpu_with_memory_and_cores():
    (place,) = places("cpu")
    assert place["cores"] == cores() >= 1
    assert place["memory_bytes"] > 2**28


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (a@b)", "580.159.04"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC: 12.3.0",
         "535.104.05"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.87  Tue Aug 21 12:33:05 PDT 2018", "390.87"),
        ("", "unknown"),
    ],
)  # fmt: skip
def test_two_drivers_of_a_gpu_are_told_apart(said, version):
    assert driver(said) == f"driver {version}"


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
