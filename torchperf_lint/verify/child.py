"""The process that runs one program on a device and writes a report; `runs` starts it."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import os
import platform
import random
import runpy
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify import apart, events
from torchperf_lint.verify.simulated.refusals import NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

OK, FAILED, NOT_SIMULATED = "ok", "failed", "not simulated"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit status is 0 wherever the report could be written, even if the program failed."""
    parser = argparse.ArgumentParser(description="Run a program on a device and write a report of what happened.")
    parser.add_argument("--device", choices=("sim", "cuda"), required=True)
    parser.add_argument("--report", required=True, metavar="FILE")
    parser.add_argument("--mode", default="count", help="count waits, or time steps (cuda): a mode of the counters")
    parser.add_argument("--operators", action="store_true", help="count device operators by line, too")
    parser.add_argument("--upkeep", action="store_true", help="note what is held from step to step, too")
    parser.add_argument("--outputs", action="store_true", help="note the kinds of what is printed and logged, too")
    parser.add_argument("--host-bytes", action="store_true", help="count the bytes that host operators make, too")
    parser.add_argument("--steps", type=int, metavar="N", help="stop the program after so many steps")
    parser.add_argument("--seed", type=int, metavar="N", help="seed all random generators first")
    parser.add_argument("--outcome", action="store_true", help="note the results and what else the program leaves")
    parser.add_argument("--library", action="append", default=[], metavar="DIR", help="a folder of library code")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="NAME",
        help="a package, or a file or folder, to count as the user's",
    )
    parser.add_argument("--rows", action="store_true", help="note which rows of the user's files ran, too")
    parser.add_argument(
        "--instead",
        action="append",
        default=[],
        nargs=2,
        metavar="DIR",
        help="where modules are looked for in the first folder, look in the second one before",
    )
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    try:
        report = _run(options)
    except NotSimulated as refusal:  # from the device itself: nothing has run
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
    from torchperf_lint.verify.host_side import HostBytes, Started, WorkerThreads
    from torchperf_lint.verify.memory_growth import Upkeep
    from torchperf_lint.verify.outputs import Outputs
    from torchperf_lint.verify.rows import RowsThatRan
    from torchperf_lint.verify.steps import EnoughSteps, Steps

    steps = Steps(recorder, options.steps)
    upkeep = Upkeep()
    started = Started()
    started.watch()
    worker_threads = WorkerThreads()
    if options.mode == "count":
        worker_threads.watch()
    made_on_host = HostBytes()
    outputs = Outputs()
    if options.outputs:
        outputs.watch()
    if options.upkeep:
        upkeep.watch(recorder)
    if options.seed is not None:
        _seed(options.seed)
    end_of_steps = steps.watch(calls=options.mode == "count")
    script = os.path.abspath(options.script)  # the program may change the folder
    events.add_installed_folders(sys.path, script)
    sys.argv = [options.script, *options.arguments]
    if apart.has_script_folder():
        sys.path.insert(0, os.path.dirname(script))
    for folder, copy in options.instead:
        _look_in(copy, folder)
    included = {name: _include(name) for name in options.include}
    rows = RowsThatRan()
    if options.rows:
        rows.watch()
    status, error, failed_at, stopped, names = OK, "", None, False, dict[str, Any]()
    try:
        with made_on_host if options.host_bytes else contextlib.nullcontext():
            names = runpy.run_path(options.script, run_name="__main__")
    except EnoughSteps:
        stopped = True
    except SystemExit as stop:
        if stop.code not in (None, 0):
            status, error, failed_at = FAILED, f"exit status {stop.code}", _place_of(stop.__traceback__)
    except BaseException as failure:
        own = _within_program(failure.__traceback__)
        failed_at = _place_of(own)
        if isinstance(failure, NotSimulated):
            status, error = NOT_SIMULATED, str(failure)
        else:
            traceback.print_exception(type(failure), failure, own)
            status, error = FAILED, _told(failure)
    _join_threads()
    recorder.active = False
    end_of_steps()
    rows.end()
    measured = finish()
    steps.settle()
    modules = _user_modules(script, recorder)
    return {
        "status": status,
        "error": error,
        "failed_at": failed_at,
        "stopped": stopped,
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
        "handed": outputs.handed,
        **measured,
        "files": sorted(modules),
        "modules": modules,
        "included": included,
        "rows": rows.by_file(),
        **(_outcome(names) if options.outcome else {}),
    }


def nothing_ran(status: str, error: str) -> dict[str, Any]:
    """The report of a program that did not run, or of one whose own report was lost."""
    nothing = dict.fromkeys(("loops", "memory", "nodes", "steady", "events", "operators", "operators_in", "files"), ())
    none = dict.fromkeys(("steps", "processes", "worker_threads", "host_bytes"), 0)
    empty: dict[str, Any] = {name: {} for name in ("device", "counters", "handed", "rows", "modules", "included")}
    return {"status": status, "error": error, "overwritten": [], "stopped": False, **empty, **none, **nothing}


def _install(device: str, mode: str, recorder: events.Recorder) -> Callable[[], dict[str, Any]]:
    """Start recording; returns a function that stops it and gives the device's own data: counters, or early writes."""
    if device == "sim":
        from torchperf_lint.verify.simulated import install, overwritten_too_early

        install(recorder)
        return lambda: {"counters": {}, "overwritten": overwritten_too_early()}
    from torchperf_lint.verify.counters import Counters

    counters = Counters(recorder, mode)
    counters.start()
    return lambda: {"counters": counters.stop(), "overwritten": []}


def _look_in(copy: str, folder: str) -> None:
    """Put a copy before its folder on the module path, or at the end if the folder is found by other means."""
    if copy not in sys.path:
        real = [os.path.realpath(each) for each in sys.path]
        sys.path.insert(real.index(folder) if folder in real else len(real), copy)


def _include(name: str) -> list[str]:
    """Count the code of a package, or a file or folder, as the user's own; returns its location.

    A bare name means a package first: programs leave folders with the names of the packages that create them.
    Raise NotSimulated where nothing has that name, because a count without it would be misleading.
    """
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    found = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    places = [os.path.abspath(place) for place in found or [name] if os.path.exists(place)]
    if not places:
        raise NotSimulated(f"--include {name}: there is no such file, folder or package")
    for place in places:
        events.include(place)
    return places


def _join_threads() -> None:
    """Wait for the program's threads, as Python does before it ends: what they do belongs to the program."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _within_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback that starts in the program, without our own frames."""
    starters = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in starters:
        trace = trace.tb_next
    return trace


def _place_of(trace: TracebackType | None) -> events.Place | None:
    """The innermost user line in a traceback."""
    places = [events.Place(frame.f_code.co_filename, row) for frame, row in traceback.walk_tb(trace)]
    return next((place for place in reversed(places) if events.is_user_file(place.file)), None)


def _told(failure: BaseException) -> str:
    """An exception as one line; only its class if its text fails."""
    try:
        return f"{type(failure).__name__}: {failure}".removesuffix(": ")
    except Exception:
        return type(failure).__name__


def _seed(seed: int) -> None:
    """Seed all generators alike in each run, whether or not the program seeds them."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _device(kind: str) -> dict[str, str]:
    """The device and the versions that can matter."""
    import torch

    versions = {"torch": torch.__version__, "python": platform.python_version()}
    torchmetrics = _text_in(sys.modules.get("torchmetrics"), "__version__")
    if torchmetrics is not None:
        versions["torchmetrics"] = torchmetrics
    name = torch.cuda.get_device_name() if kind == "cuda" else "simulated"
    return {"kind": kind, "name": name, **versions}


def _user_modules(script: str, recorder: events.Recorder) -> dict[str, str]:
    """The user's own files that ran, with their modules' names (empty for files run in another way)."""
    named = dict.fromkeys([script, *(each.where.file for each in recorder.events)], "")
    named |= {
        _text_in(module, "__file__") or "": name for name, module in list(sys.modules.items()) if name != "__main__"
    }
    files = {
        os.path.abspath(file): name for file, name in named.items() if os.path.isabs(file) and file.endswith(".py")
    }
    files.setdefault(script, "")
    return {file: name for file, name in files.items() if events.is_user_file(file) and os.path.isfile(file)}


def _text_in(module: object, name: str) -> str | None:
    """A module's text attribute, without triggering attributes that are computed on access."""
    value = inspect.getattr_static(module, name, None)
    return value if isinstance(value, str) else None


def _outcome(names: dict[str, Any]) -> dict[str, Any]:
    """The program's final state: its global `results`, if any, the states of random generators, and settings.

    Results that have no exact record are named as `not_comparable` instead.
    """
    from torchperf_lint.verify import results

    outcome: dict[str, Any] = {"random_state": results.random_state(), "settings": results.settings()}
    if "results" in names:
        try:
            outcome["results"] = results.encode(names["results"])
        except results.NotComparable as refusal:
            outcome["not_comparable"] = str(refusal)
    return outcome
