"""Messages of allocations that failed, as programs print them."""

from __future__ import annotations

import pytest

from mfcp.executors.out_of_memory import tells_memory


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes", True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", True),
        ("OSError: [Errno 12] Cannot allocate memory", True),
        ("ValueError: loss is nan", False),
        ("", False),
    ],
)
def test_they_are_known(text, told):
    assert tells_memory(text) == told
