"""Which devices need the driver of a GPU."""

from __future__ import annotations

import pytest

from mlir_matrix.actions.sandbox.gpu_driver import has_gpu


@pytest.mark.parametrize(
    "device", ["/dev/nvidia0", "/dev/nvidia*", "/dev/nv*", "/dev/{nvidia0,nvidiactl}", "/dev/kfd", "/dev/*"]
)
def test_devices_of_a_gpu(device: str) -> None:
    assert has_gpu(["/dev/null", device])


@pytest.mark.parametrize("device", ["/dev/null", "/dev/nv", "/dev/tty*", "/dev/kvm"])
def test_other_devices(device: str) -> None:
    assert not has_gpu([device])
