"""`torchperf-lint verify`: run the rules' programs unfixed and fixed, print the counts, and store them on request."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_lint import measurements, pages
from torchperf_lint.engine import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.measurements import Device
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.step_times import StepTimes

PROVED, NOT_PROVED, FAILED = 0, 1, 2

_EPILOG = """\
Exit status: 0 every fix is accepted and the counts are those of the rules' pages, 1 some are not, or could not be
verified here, 2 the run is not complete. What the simulated device cannot do counts as not verified.
With --script: 0 no line waits and nothing is found, 1 some line waits or something is found, 2 the program failed or
a file cannot be checked."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    own, script_arguments = _split(arguments)
    options = command_parser().parse_args(own)
    own_torch = importlib.util.find_spec("torch") is not None
    if not own_torch and (options.python is None or options.fix_preview):
        return _complain("torch is not installed: pip install 'torchperf-lint[verify]'")
    misuse = _misuse(options, script_arguments)
    if misuse:
        return _complain(misuse)
    unknown = [name for name in options.rules if _rules_named(name) == []]
    if unknown:
        return _complain(f"there is no rule `{unknown[0]}`; `torchperf-lint rules` lists them")
    try:
        device = _device(options.device) if options.python is None else _device_of(options.python, options.device)
    except _NoTorch as error:
        return _complain(f"--python {options.python}: {error}")
    if device is None:
        return _complain("torch sees no CUDA device here; --device sim simulates one")
    if options.script is not None:
        from torchperf_lint.verify import script

        return script.verify(
            script.Request(
                options.script,
                script_arguments,
                device,
                options.steps,
                options.include,
                options.python,
                options.jobs,
                as_json=options.output_format == "json",
                page=options.report,
                fix_preview=options.fix_preview,
                unsafe=options.unsafe_fixes,
            )
        )
    if options.experiments:
        from torchperf_lint.verify import experiments

        return experiments.verify(device, options.releases)
    return _verify_rules(options, device)


def _misuse(options: argparse.Namespace, script_arguments: Sequence[str]) -> str:
    """The error in a contradictory or meaningless request; empty if all is well."""
    if options.jobs < 1:
        return f"--jobs must be at least 1, not {options.jobs}"
    if options.steps is not None and options.steps < 1:
        return f"--steps must be at least 1, not {options.steps}"
    for name in ("steps", "include", "python", "output_format", "fix_preview"):
        if options.script is None and getattr(options, name):
            return f"--{name.replace('_', '-')} is for --script"
    if options.unsafe_fixes and not options.fix_preview:
        return "--unsafe-fixes is for --fix-preview"
    if options.script is None and script_arguments:
        return f"`{script_arguments[0]}` after -- is an argument for --script, which is not given"
    modes = ("--script", options.script is not None), ("--experiments", options.experiments)
    others = ("RULE", options.rules), ("--update", options.update), ("--report", options.report and not options.script)
    chosen, unfit = ([name for name, given in each if given] for each in (modes, others))
    together = [*chosen, *unfit] if chosen else []
    return f"{together[0]} and {together[1]} do not go together" if len(together) > 1 else ""


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before and after `--`."""
    arguments = list(arguments)
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="torchperf-lint verify",
        description="Run programs before and after fixes, on a GPU or a simulated one; compare waits and results.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("rules", nargs="*", metavar="RULE", help="codes, prefixes of codes or names (default: all)")
    add(
        "--device",
        choices=("auto", "sim", "cuda"),
        default="auto",
        help="where to run (default: a GPU if there is one)",
    )
    add("--report", type=Path, metavar="DIR", help="write report.html, with tables and plots, into this folder")
    add("--update", action="store_true", help="write what was measured into rules/ of the checkout")
    add(
        "--releases",
        type=Path,
        metavar="DIR",
        help="the folder for releases of torchmetrics (default: in the user's cache)",
    )
    add(
        "-j",
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes at a time (default: the number of cores)",
    )
    add("-v", "--verbose", action="store_true", help="print the lines that wait, before and after the fix")
    add("--experiments", action="store_true", help="repeat the experiments of four articles instead, claim by claim")
    add = parser.add_argument_group("a program of your own").add_argument
    add("--script", type=Path, metavar="FILE", help="run this script instead; its own arguments follow after --")
    add("--steps", type=int, metavar="N", help="stop it after this number of steps")
    add(
        "--include",
        action="append",
        default=[],
        metavar="NAME",
        help="count and check the lines of this installed package, file or folder as well; may be repeated",
    )
    add(
        "--fix-preview",
        action="store_true",
        help="run a copy of it with and without the fixes, and compare waits and results",
    )
    add("--unsafe-fixes", action="store_true", help="with --fix-preview: the unsafe fixes as well")
    add(
        "--output-format",
        choices=("text", "json"),
        help="the output's format; with json, what the script prints goes to standard error",
    )
    add(
        "--python",
        metavar="FILE",
        help="run it with this Python, which has torch (default: the one that runs torchperf-lint)",
    )
    return parser


def _complain(text: str) -> int:
    print(f"torchperf-lint verify: error: {text}", file=sys.stderr)
    return FAILED


def _device(wanted: str) -> str | None:
    """`sim` or `cuda`; None where a GPU is requested and there is none."""
    if wanted == "sim":
        return wanted
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "sim" if wanted == "auto" else None


class _NoTorch(Exception):
    """A Python does not run, or has no torch; the text says which."""


def _device_of(python: str, wanted: str) -> str | None:
    """The device for another Python that runs the program; raise _NoTorch where it cannot."""
    program = "import sys; assert sys.version_info >= (3, 10); "
    program += "import importlib.util; print(importlib.util.find_spec('torch') is not None)"
    if wanted != "sim":
        program += "; import torch; print(torch.cuda.is_available())"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise _NoTorch(f"it cannot be run: {error.strerror}") from error
    has_torch, _, has_gpu = done.stdout.strip().partition("\n")
    if has_torch != "True":
        raise _NoTorch("torch is not installed there" if has_torch == "False" else "it is no Python 3.10 or newer")
    if has_gpu == "True":
        return "cuda"
    return None if wanted == "cuda" else "sim"


def _rules_named(name: str) -> list[Rule]:
    return [rule for rule in registry.all_rules() if registry.matches(name, rule)]


def _verify_rules(options: argparse.Namespace, device: str) -> int:
    from torchperf_lint.verify import environments, keeping, pairs, report, tables
    from torchperf_lint.verify.step_times import time_steps
    from torchperf_lint.verify.workloads import BadWorkload, workloads_of

    named = [rule for name in options.rules for rule in _rules_named(name)]
    chosen = [rule for rule in registry.all_rules() if not options.rules or rule in named]
    try:
        cases = pairs.cases_of(workloads_of(chosen))
    except (BadWorkload, OSError) as error:
        return _complain(str(error))
    if options.update and not pages.in_checkout():
        return _complain("--update writes into a checkout, and this is an installation")
    if options.report is not None:
        try:
            report.prepare(options.report)
        except OSError as error:
            return _complain(f"{options.report}: the report cannot be written: {error.strerror}")
    claimed = pages.measured()
    releases = options.releases or environments.default_folder()
    measured: list[tuple[Proof, StepTimes | None]] = []
    not_kept: list[str] = []
    status = PROVED
    jobs = options.jobs if device == "sim" else 1  # timing needs exclusive use of the GPU
    proofs = pairs.prove_all(cases, device, releases, jobs, operators=options.report is not None)
    for rule, its_proofs in itertools.groupby(proofs, key=lambda proof: proof.case.workload.rule):
        of_rule: list[tuple[Proof, StepTimes | None]] = []
        sound = True
        for proof in its_proofs:
            times = time_steps(proof, releases) if device == "cuda" else None
            of_rule.append((proof, times))
            complaints = [] if options.update else broken_claims(proof, device, claimed)
            sound &= proof.verdict in (pairs.ACCEPTED, pairs.UNCHANGED) and not complaints
            print(tables.row(proof, complaints, times), flush=True)
            if options.verbose:
                print(tables.lines(proof), end="", flush=True)
        measured += of_rule
        if not sound:
            status = NOT_PROVED
            not_kept.append(rule.code)
        elif options.update:
            facts = of_rule[0][0].runs[measurements.UNFIXED].report["device"]
            keeping.keep(rule, [keeping.measurement(*each) for each in of_rule], facts)
    print(tables.summary([proof for proof, _ in measured], chosen))
    if options.report is not None:
        written = report.write([proof for proof, _ in measured], options.report, [times for _, times in measured])
        print(f"wrote {written}")
    if options.update and not_kept:
        return _complain(f"nothing is written for {', '.join(not_kept)}: not all their programs were accepted")
    return status


def broken_claims(proof: Proof, device: str, claimed: dict[str, Device]) -> list[str]:
    """Where the rule's page contradicts a proof on the simulated device."""
    if device != "sim" or not proof.runs:
        return []
    from torchperf_lint.verify import keeping

    case = proof.case
    pages_device = claimed.get(measurements.SIMULATED)
    rows = pages_device.rules.get(case.workload.rule.code, ()) if pages_device else ()
    found = keeping.measurement(proof)
    row = next((row for row in rows if row[:2] == found[:2]), None)
    if row is None:
        return ["the page says nothing of this workload"]
    return [
        f"the page says {name} {getattr(row, name)}, and {getattr(found, name)} is measured"
        for name in ("waits", "staged", "results", "others")
        if getattr(row, name) != getattr(found, name)
    ]
