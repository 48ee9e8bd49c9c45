"""A CUDA device simulated on the host: ordinary programs run unchanged, with real values, and every wait is recorded.

`install` makes `device="cuda"` work in this process, on a machine without a GPU. Tensors of the device are plain
tensors over host memory. The device has no timing: times measured on it mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.verify.simulated.refusals import NotSimulated

if TYPE_CHECKING:
    from torchperf_lint.verify.events import Place, Recorder

__all__ = ["NotSimulated", "install", "overwritten_too_early"]

_installed = False


def install(recorder: Recorder) -> None:
    """Make "cuda" the simulated device of this process, permanently, and send its events to the recorder."""
    global _installed
    from torchperf_lint.verify.simulated import releases

    releases.check()
    from torchperf_lint.verify.simulated import journal, pending

    journal.write_to(recorder)
    recorder.on_step.append(lambda step: pending.look())
    if not _installed:
        _installed = True
        _put_in_place()


def overwritten_too_early() -> list[Place]:
    """The lines of asynchronous copies whose source the program overwrote before it waited for them."""
    from torchperf_lint.verify.simulated import pending

    return pending.overwritten()


def _put_in_place() -> None:
    from torch.utils import _device as default_devices
    from torch.utils import backend_registration

    from torchperf_lint.verify.simulated import extensions, processes, registration, torch_shims
    from torchperf_lint.verify.simulated.backend import BackendModule
    from torchperf_lint.verify.simulated.names import BACKEND

    default_devices._device_constructors()  # it caches the factories, and must cache the originals
    backend_registration._setup_privateuseone_for_python_backend(BACKEND, backend_module=BackendModule())
    torch_shims.put_on()
    registration.register()
    processes.watch_forks()
    extensions.watch()
