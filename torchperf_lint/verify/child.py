"""The process that runs one program on a device and writes a report: `python -m torchperf_lint.verify.child`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import runpy
import sys
import traceback
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OK, FAILED, NOT_SIMULATED = "ok", "failed", "not simulated"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit status is 0 wherever the report could be written, whatever became of the program."""
    parser = argparse.ArgumentParser(description="Run a program on a device and write a report of what happened.")
    parser.add_argument("--device", choices=("sim", "cuda"), required=True)
    parser.add_argument("--report", required=True, metavar="FILE")
    parser.add_argument("--mode", choices=("count", "time"), default="count", help="count waits, or time steps (cuda)")
    parser.add_argument("--operators", action="store_true", help="count device operators by line, too")
    parser.add_argument("--memory", action="store_true", help="note the device memory in use at each step, too")
    parser.add_argument("--steps", type=int, metavar="N", help="stop the program after so many steps")
    parser.add_argument("--seed", type=int, metavar="N", help="seed all random generators first")
    parser.add_argument("--library", action="append", default=[], metavar="DIR", help="a folder of library code")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    report = _run(options)
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
    from torchperf_lint.verify.steps import EnoughSteps, Steps

    steps = Steps(recorder, options.steps)
    memory: list[int] = []
    if options.memory:
        recorder.on_step.append(lambda step: _note_memory(memory, step))
    if options.seed is not None:
        _seed(options.seed)
    end_of_steps = steps.watch()
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    status, error, names = OK, "", dict[str, Any]()
    try:
        names = runpy.run_path(options.script, run_name="__main__")
    except EnoughSteps:
        pass
    except SystemExit as stop:
        if stop.code not in (None, 0):
            status, error = FAILED, f"exit status {stop.code}"
    except BaseException as failure:
        traceback.print_exc()
        from torchperf_lint.verify.simulated import NotSimulated

        status = NOT_SIMULATED if isinstance(failure, NotSimulated) else FAILED
        error = f"{type(failure).__name__}: {failure}"
    recorder.active = False
    end_of_steps()
    counters = finish()
    return {
        "status": status,
        "error": error,
        "device": _device(options.device),
        "steps": steps.made,
        "loops": steps.lengths,
        "memory": memory,
        "steady": [[step, *place] for step, place in steps.steady().items()],
        "events": [each.as_json() for each in recorder.events],
        "operators": [[step, *where, name, count] for (step, where, name), count in recorder.operators.items()],
        "counters": counters,
        "files": _user_files(options.script),
        **_outcome(names),
    }


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


def _note_memory(memory: list[int], step: int | None) -> None:
    """Note the bytes in use on the device where a new step begins, and not where an outer one goes on."""
    import torch

    if step == len(memory):
        memory.append(torch.cuda.memory_allocated())


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
    files = {os.path.abspath(file) for file in (script, *loaded) if file and file.endswith(".py")}
    return sorted(file for file in files if events.is_user_file(file) and os.path.isfile(file))


def _outcome(names: dict[str, Any]) -> dict[str, Any]:
    """What the program leaves: its global `results`, if there is one, where the random generators stand, and settings."""
    from torchperf_lint.verify import results

    outcome: dict[str, Any] = {"random_state": results.random_state(), "settings": results.settings()}
    if "results" in names:
        outcome["results"] = results.encode(names["results"])
    return outcome


if __name__ == "__main__":
    raise SystemExit(main())
