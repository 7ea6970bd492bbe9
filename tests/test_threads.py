"""One thread, and the earlier number again afterwards."""

import threadpoolctl
import torch

from mfcp.threads import one_blas_thread, one_thread


def blas():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_torch_keeps_to_one_thread_and_has_its_own_again_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
    except KeyError:
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_blas_keeps_to_one_thread():
    import scipy.linalg  # noqa: F401

    before = blas()
    with one_blas_thread():
        assert blas() == {1}
    assert blas() == before
