"""How programs measure time: what their names say, and the functions that they read clocks with."""

from __future__ import annotations

import re

TIMING_NAMES = re.compile(
    r"(^|_)(time|timer|timers|timing|timed|timeit|tic|toc|clock|elapsed|latency|latencies|throughput|fps|speed|bench|"
    r"benchmark|profile|profiler|profiling|warmup|perf|stopwatch)(_|$)|perf_counter|monotonic|elapsed_time|enable_timing"
)
"""Names in functions that measure: there the host waits for the device so that the clock is right."""

CLOCK_STEMS = ("perf_counter", "elapsed_time", "timeit", "enable_timing")
"""In names of files that measure."""

ORDER_STEMS = (
    *("wait_stream", "wait_event", "record_stream", "CUDAGraph", "graph_pool", "cpp_extension", "load_inline"),
    *("ctypes", "cupy", "numba", "triton", "pycuda", "nvshmem", "ipc_collect", "share_memory"),
)
"""In names of files with work on other streams, or outside torch: there a wait may keep the order right."""
