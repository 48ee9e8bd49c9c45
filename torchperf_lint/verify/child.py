"""The process that runs one program on a device and writes a report: `python -m torchperf_lint.verify.child`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import runpy
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify import events
from torchperf_lint.verify.simulated.refusals import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

OK, FAILED, NOT_SIMULATED = "ok", "failed", "not simulated"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit status is 0 wherever the report could be written, whatever became of the program."""
    parser = argparse.ArgumentParser(description="Run a program on a device and write a report of what happened.")
    parser.add_argument("--device", choices=("sim", "cuda"), required=True)
    parser.add_argument("--report", required=True, metavar="FILE")
    parser.add_argument("--mode", choices=("count", "time"), default="count", help="count waits, or time steps (cuda)")
    parser.add_argument("--operators", action="store_true", help="count device operators by line, too")
    parser.add_argument("--upkeep", action="store_true", help="note what is held from step to step, too")
    parser.add_argument("--host-bytes", action="store_true", help="count the bytes that host operators make, too")
    parser.add_argument("--steps", type=int, metavar="N", help="stop the program after so many steps")
    parser.add_argument("--seed", type=int, metavar="N", help="seed all random generators first")
    parser.add_argument("--library", action="append", default=[], metavar="DIR", help="a folder of library code")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    try:
        report = _run(options)
    except NotSimulated as refusal:  # of the device itself: nothing has run
        report = nothing_ran(NOT_SIMULATED, str(refusal))
    part = f"{options.report}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(part, options.report)
    return 0


def _run(options: argparse.Namespace) -> dict[str, Any]:
    for folder in options.library:
        events.add_library_folder(folder)
    recorder = events.Recorder()
    recorder.count_operators = options.operators
    finish = _install(options.device, options.mode, recorder)
    if options.device == "sim":
        _declare_operators(options.library)
    from torchperf_lint.verify.host_side import HostBytes, Started, WorkerThreads
    from torchperf_lint.verify.steps import EnoughSteps, Steps
    from torchperf_lint.verify.upkeep import Upkeep

    steps = Steps(recorder, options.steps)
    upkeep = Upkeep()
    started = Started()
    started.watch()
    worker_threads = WorkerThreads()
    if options.mode == "count":
        worker_threads.watch()
    made_on_host = HostBytes()
    if options.upkeep:
        upkeep.watch(recorder)
    if options.seed is not None:
        _seed(options.seed)
    end_of_steps = steps.watch()
    script = os.path.abspath(options.script)  # the program may change the folder
    _leave_path()
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(script)
    status, error, failed_at, names = OK, "", None, dict[str, Any]()
    try:
        with made_on_host if options.host_bytes else contextlib.nullcontext():
            names = runpy.run_path(options.script, run_name="__main__")
    except EnoughSteps:
        pass
    except SystemExit as stop:
        if stop.code not in (None, 0):
            status, error = FAILED, f"exit status {stop.code}"
    except BaseException as failure:
        own = _within_program(failure.__traceback__)
        failed_at = _place_of(own)
        if isinstance(failure, NotSimulated):
            status, error = NOT_SIMULATED, str(failure)
        else:
            traceback.print_exception(type(failure), failure, own)
            status, error = FAILED, f"{type(failure).__name__}: {failure}".removesuffix(": ")
    _join_threads()
    recorder.active = False
    end_of_steps()
    counters = finish()
    return {
        "status": status,
        "error": error,
        "failed_at": failed_at,
        "device": _device(options.device),
        "steps": steps.made,
        "loops": steps.lengths,
        "memory": upkeep.memory,
        "nodes": list(upkeep.nodes.items()),
        "processes": started.count,
        "worker_threads": worker_threads.count,
        "host_bytes": made_on_host.count,
        "steady": [[step, *place] for step, place in steps.steady().items()],
        "events": [each.as_json() for each in recorder.events],
        "operators": [[step, *where, name, count] for (step, where, name), count in recorder.operators.items()],
        "operators_in": list(recorder.operators_in.items()),
        "counters": counters,
        "files": _user_files(script),
        **_outcome(names),
    }


def _leave_path() -> None:
    """Take our own folder from where modules are looked for: it holds more than this package, and shadows others."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if own in named:
        named.remove(own)
        os.environ["PYTHONPATH"] = os.pathsep.join(named)
        sys.path.remove(own)


def nothing_ran(status: str, error: str) -> dict[str, Any]:
    """The report of a program that did not run, or of one whose own report was lost."""
    nothing = dict.fromkeys(("loops", "memory", "nodes", "steady", "events", "operators", "operators_in", "files"), ())
    none = dict.fromkeys(("steps", "processes", "worker_threads", "host_bytes"), 0)
    return {"status": status, "error": error, "device": {}, "counters": {}, **none, **nothing}


def _install(device: str, mode: str, recorder: events.Recorder) -> Callable[[], dict[str, Any]]:
    """Begin to record; return what ends it and gives the device's own counts, none for a simulated one."""
    if device == "sim":
        from torchperf_lint.verify.simulated import install

        install(recorder)
        return dict
    from torchperf_lint.verify.counters import Counters

    counters = Counters(recorder, mode)
    counters.start()
    return counters.stop


_UNDECLARED = {"torchvision": ("nms", "qnms")}
"""By package, the operators without which it refuses to be imported, though it can do much without any."""


def _declare_operators(libraries: Sequence[str]) -> None:
    """Declare the operators of releases from PyPI, whose wheels for CUDA cannot load them into a torch without it."""
    import torch

    for package, names in _UNDECLARED.items():
        if sys.platform == "linux" and any(os.path.isdir(os.path.join(folder, package)) for folder in libraries):
            declared = torch.library.Library(package, "FRAGMENT")  # type: ignore[no-untyped-call]
            for name in names:
                schema = f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor"
                declared.define(schema)  # type: ignore[no-untyped-call]
            _kept.append(declared)


_kept: list[Any] = []
"""What is declared lives as long as the object that declares it."""


def _join_threads() -> None:
    """Wait for the program's threads, as Python does before it ends: what they do belongs to the program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _within_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the program on, without how it was started."""
    starters = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in starters:
        trace = trace.tb_next
    return trace


def _place_of(trace: TracebackType | None) -> events.Place | None:
    """The innermost line of the user's that a traceback goes through."""
    places = [events.Place(frame.f_code.co_filename, row) for frame, row in traceback.walk_tb(trace)]
    return next((place for place in reversed(places) if events.is_user_file(place.file)), None)


def _seed(seed: int) -> None:
    """Let every generator start from the same state in each run, whether or not the program seeds it."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _device(kind: str) -> dict[str, str]:
    """What the program ran on: the device and the versions that can matter."""
    import torch

    versions = {"torch": torch.__version__, "python": platform.python_version()}
    if "torchmetrics" in sys.modules:
        versions["torchmetrics"] = sys.modules["torchmetrics"].__version__
    name = torch.cuda.get_device_name() if kind == "cuda" else "simulated"
    return {"kind": kind, "name": name, **versions}


def _user_files(script: str) -> list[str]:
    """The files of the user's own that were loaded."""
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {os.path.abspath(file) for file in loaded if file and file.endswith(".py")} | {script}
    return sorted(file for file in files if events.is_user_file(file) and os.path.isfile(file))


def _outcome(names: dict[str, Any]) -> dict[str, Any]:
    """What the program leaves: its global `results`, if there is one, random generators somewhere, and settings."""
    from torchperf_lint.verify import results

    outcome: dict[str, Any] = {"random_state": results.random_state(), "settings": results.settings()}
    if "results" in names:
        outcome["results"] = results.encode(names["results"])
    return outcome


if __name__ == "__main__":
    raise SystemExit(main())
