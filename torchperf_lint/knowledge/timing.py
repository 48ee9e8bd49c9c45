"""How programs measure time: parts of their names, and the functions that read clocks."""

from __future__ import annotations

import re

TIMING_NAMES = re.compile(
    r"(^|_)(time|timer|timers|timing|timed|timeit|tic|toc|clock|elapsed|latency|latencies|throughput|fps|speed|bench|"
    r"benchmark|profile|profiler|profiling|warmup|perf|stopwatch)(_|$)|perf_counter|monotonic|elapsed_time|enable_timing"
)
"""Names in functions that measure time: there the host waits for the device on purpose."""

CLOCK_STEMS = ("perf_counter", "elapsed_time", "timeit", "enable_timing")
"""Parts of names in files that measure time."""

ORDER_STEMS = (
    *("wait_stream", "wait_event", "record_stream", "CUDAGraph", "graph_pool", "cpp_extension", "load_inline"),
    *("ctypes", "cupy", "numba", "triton", "pycuda", "nvshmem", "ipc_collect", "share_memory"),
)
"""Parts of names in files with other streams, or work outside torch: there a wait may preserve the order."""
