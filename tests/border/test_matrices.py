"""Matrices: what comes back is what numpy wrote; what is none is refused. Messages: commands/test_matrix_files.py."""

import io
import lzma
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mfcp.border.matrices import read_numbers
from mfcp.errors import DataError


@settings(max_examples=60)
@given(hnp.arrays(st.sampled_from([np.float32, np.float64, np.int64]), hnp.array_shapes(min_dims=2, max_dims=2)))
def test_what_is_written_is_read(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("m")
    np.save(folder / "a.npy", values)
    read = read_numbers(folder / "a.npy")
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)
    np.savetxt(folder / "a.csv", values, delimiter=",", fmt="%.17g")
    np.testing.assert_array_equal(read_numbers(folder / "a.csv"), values)


def npy(array=None):
    buffer = io.BytesIO()
    np.save(buffer, np.ones((3, 3)) if array is None else array)
    return buffer.getvalue()


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        *(npy()[:length] for length in (1, 6, 8, 9, 10, 40, 127, 150)),
        npz(),
        lzma.compress(npy()),
        npy(np.array(["a"])),
        npy(np.ones(3, complex)),
        npy().replace(b"(3, 3)", b"(3,-3)"),
        npy().replace(b"(3, 3)", b"(9**9"),
        npy().replace(b"(3, 3)", b"[3, 3]"),
        npy().replace(b"<f8", b"|O8"),
    ],
)
def test_what_is_no_array_is_refused(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npy: not a numeric matrix \(.*\); expected a matrix of numbers"):
        read_numbers(tmp_path / "a.npy")


@settings(max_examples=300)
@given(st.binary(max_size=60), st.sampled_from([".npy", ".csv"]))
def test_no_content_gives_anything_but_numbers_or_a_data_error(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("m") / f"a{ending}"
    path.write_bytes(content)
    with suppress(DataError):
        read_numbers(path)
