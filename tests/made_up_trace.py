"""Traces that no profiler made, in the layout that `export_chrome_trace` writes."""

from __future__ import annotations

import json

PAGEABLE_TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"
PINNED_TO_DEVICE = "Memcpy HtoD (Pinned -> Device)"
DEVICE_TO_PAGEABLE = "Memcpy DtoH (Device -> Pageable)"
DEVICE_TO_PINNED = "Memcpy DtoH (Device -> Pinned)"
ON_DEVICE = "Memcpy DtoD (Device -> Device)"
ITEM = "<built-in method item of Tensor object at 0x7f5e3a96b570>"
RUN_BACKWARD = "<built-in method run_backward of torch._C._EngineBase object at 0x7f5e59da7000>"


class Trace:
    """Events of one process; times in microseconds."""

    def __init__(self):
        self.events = []
        self._correlation = 0
        self.add("M", "thread_name", None, args={"name": "thread 1 (python)"})

    def add(self, phase, name, category, start=0.0, duration=None, *, thread=1, args=None):
        event = {"ph": phase, "cat": category, "name": name, "pid": 7, "tid": thread, "ts": start, "dur": duration}
        self.events.append({key: value for key, value in event.items() if value is not None} | {"args": args or {}})

    def step(self, number, start, duration):
        self.add("X", f"ProfilerStep#{number}", "user_annotation", start, duration)
        self.add("X", f"ProfilerStep#{number}", "gpu_user_annotation", start, duration, thread="stream 7")

    def frame(self, name, start, duration, *, thread=1):
        self.add("X", name, "python_function", start, duration, thread=thread, args={"Python id": len(self.events)})

    def operator(self, name, start, duration, *, thread=1, stack=None):
        self.add("X", name, "cpu_op", start, duration, thread=thread, args={"Call stack": stack} if stack else None)

    def call(self, name, start, duration, *, copy=None, thread=1):
        """A call into the runtime, and the copy that it starts on the device."""
        self._correlation += 1
        partner = {"correlation": self._correlation}
        self.add("X", name, "cuda_runtime", start, duration, thread=thread, args=partner)
        if copy:
            self.add("X", copy, "gpu_memcpy", start + 5, 1.0, thread="stream 7", args=partner)

    def item(self, start, copying=80.0, synchronizing=10.0, *, thread=1, stack=None):
        """What `.item()` does on the device: 100 microseconds of operators around the two calls that wait."""
        for depth, name in enumerate(("aten::item", "aten::_local_scalar_dense")):
            self.operator(name, start + depth, 100 - 2 * depth, thread=thread, stack=stack)
        self.call("cudaMemcpyAsync", start + 2, copying, copy=DEVICE_TO_PAGEABLE, thread=thread)
        self.call("cudaStreamSynchronize", start + 2 + copying, synchronizing, thread=thread)

    def item_in(self, start, *frames):
        """The same below some frames, the outermost first, in 10 microseconds more on both sides of each."""
        for depth, name in enumerate((*frames, ITEM)):
            self.frame(name, start + depth, 200 - 2 * depth)
        self.item(start + 20)

    def text(self):
        return json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": self.events}, indent=1)

    def write(self, folder, name="trace.json"):
        (folder / name).write_text(self.text(), encoding="utf-8")
        return name
