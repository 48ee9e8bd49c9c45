"""Profiles that no GPU made, with entries as the profiler writes them."""

from __future__ import annotations

import types

from torch._C._autograd import DeviceType

from torchperf_lint.verify.counters import runtime


class Kineto:
    """Entries of the profiler's raw results; times in nanoseconds."""

    def __init__(self):
        self.events = []

    def add(self, name, start, duration, *, device=False, correlation=0, row=1):
        self.events.append(
            types.SimpleNamespace(
                name=lambda: name,
                device_type=lambda: DeviceType.CUDA if device else DeviceType.CPU,
                start_ns=lambda: start,
                duration_ns=lambda: duration,
                correlation_id=lambda: correlation,
                device_resource_id=lambda: row,
            )
        )

    def call(self, name, start, duration=10, *, then=None, later=0, lasting=20, correlation=0, row=1):
        """A call into the runtime, and what it starts on the device some time later."""
        self.add(name, start, duration, correlation=correlation, row=row)
        if then:
            self.add(then, start + later, lasting, device=True, correlation=correlation, row=7)


KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>(int)"
)


def two_steps():
    """Two steps with all kinds of waits, marks on both rows, and a copy that runs in the step after its own."""
    kineto = Kineto()
    kineto.call("cudaStreamSynchronize", 50)  # before the first step: the profiler's start
    for number, start in ((2, 1000), (3, 2000)):
        kineto.add(f"{runtime.MARK}{number}", start, 1000)
        kineto.add(f"{runtime.MARK}{number}", start + 5, 900, device=True)  # the profiler repeats marks on the device
        kineto.add("Optimizer.step#SGD.step", start + 10, 100)
        kineto.add("Optimizer.step#SGD.step", start + 20, 100, device=True)
        kineto.add("aten::copy_", start + 100, 50)
        kineto.call("cudaLaunchKernel", start + 120, then=KERNEL, later=30, correlation=number * 10)
        kineto.call("cudaStreamSynchronize_v3020", start + 200, 300)
        pageable = "Memcpy DtoH (Device -> Pageable)"
        kineto.call("cudaMemcpyAsync", start + 190, then=pageable, later=5, correlation=number * 10 + 1)
    late = "Memcpy HtoD (Pinned -> Device)"
    kineto.call("cudaMemcpyAsync", 1900, then=late, later=400, correlation=99)
    kineto.call("cudaMemcpyAsync", 2500, then="Memcpy HtoD (Pageable -> Device)", later=5, correlation=98, row=2)
    kineto.call("cudaEventSynchronize", 2600, row=2)
    kineto.call("cuCtxSynchronize", 2700)
    kineto.call("cudaDeviceSynchronize", 3100)  # after the last step: the profiler's end
    return runtime.activities(kineto.events)
