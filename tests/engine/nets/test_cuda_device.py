"""Which device an engine runs on, and how many streams a GPU's memory holds; the GPU itself is a stand-in."""

import pytest
import torch

from studio.core.errors import NeedsPackage, NoMemory
from studio.engine.nets.cuda import device as cuda_device
from studio.engine.nets.cuda.device import check_gpu, check_memory, tensor_bytes, usable_device
from studio.engine.nets.kv_cache import KVCache

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    check_gpu.cache_clear()


def old_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 5))
    patch.setattr(torch.cuda, "get_device_name", lambda *_: "an old card")


def test_an_old_gpu_is_refused_with_its_name_and_auto_takes_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old_gpu(monkeypatch)
    with pytest.raises(NeedsPackage, match=r"an old card has compute capability 7\.5 .*8\.0 or newer"):
        usable_device(GPU, fall_back=False)
    with caplog.at_level("WARNING"):
        assert usable_device(GPU, fall_back=True) == CPU
    assert "an old card" in caplog.text


def test_a_triton_that_cannot_compile_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    with pytest.raises(NeedsPackage, match=r"Triton cannot compile kernels here .*C compiler; --device cpu"):
        usable_device(GPU, fall_back=False)


def test_a_cpu_needs_no_check() -> None:
    assert usable_device(CPU, fall_back=False) == CPU


def test_streams_that_do_not_fit_are_refused_with_the_number_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "free_bytes", lambda _: 3 * 2**30)
    check_memory(GPU, 20, 100 * 2**20)
    with pytest.raises(NoMemory, match="one takes 100 MiB: 21 do not fit; choose at most 19 concurrency slots"):
        check_memory(GPU, 21, 100 * 2**20)
    with pytest.raises(NoMemory, match="--device cpu works everywhere"):
        check_memory(GPU, 1, 4 * 2**30)
    check_memory(CPU, 10**9, 2**30)


def test_bytes_of_slots_count_every_tensor_once() -> None:
    cache = KVCache(2, 3, 2, 8, 4)
    numbers = 2 * 2 * 3 * 2 * 8 * 4 * 4 + 3 * 3 * 8
    assert tensor_bytes(cache) == numbers
    assert tensor_bytes([cache, cache.keys[0]]) == numbers
    assert cuda_device.tensor_bytes("none") == 0
