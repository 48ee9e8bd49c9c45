"""A real dask cluster: what its workers, who see no file of the project, make of it is what this machine would."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import pytest

import blind_worker
from fake_rules import HINTS, TARGET
from linting import RESULTS, ROOT, few
from torchperf_lint.cli import main
from torchperf_lint.config import Settings
from torchperf_lint.engine import cluster as cluster_module
from torchperf_lint.engine import executors, jobs, project_snapshot, store, tool_fingerprint
from torchperf_lint.engine.cluster import Project, judge
from torchperf_lint.engine.executors import Unusable, drive
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import Action, Job, Result, failed
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.model.project import file_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from distributed import LocalCluster

    from torchperf_lint.engine.declare import Rule

PROJECTS = ROOT / "fixtures" / "projects"
PARTS = ("base_trainer", "loaders", "metrics_from_elsewhere", "package_helper", "reexports", "relative_imports")
FEEDS = """\
import torch
from torchmetrics import MeanMetric


def train(model, loader):
    losses = MeanMetric().to("cuda")
    for x in loader:
        loss = model(x.to("cuda", non_blocking=True)).sum()
        loss.backward()
        losses.update(loss.item())
"""
SUMS = """\
import torch


def train(model, loader, optimizer):
    total = 0.0
    for x in loader:
        loss = model(x.to("cuda")).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@contextlib.contextmanager
def started(**how: Any) -> Iterator[LocalCluster]:
    from distributed import LocalCluster

    how = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL, **how}
    with LocalCluster(**how) as cluster:
        yield cluster


@contextlib.contextmanager
def worker_restarted(address: str) -> Iterator[None]:
    """One worker process, and another one whenever it has ended.

    A cluster's nanny does this as well, but gives up on a worker that ends at once, and cannot be closed while it
    starts one.
    """
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes: list[subprocess.Popen[bytes]] = []
    ended = threading.Event()

    def run_again_and_again() -> None:
        while not ended.is_set():
            processes.append(
                subprocess.Popen(
                    [*command, "--nthreads", "1"],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            processes[-1].wait()

    thread = threading.Thread(target=run_again_and_again)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        while thread.is_alive():
            for process in processes:
                process.kill()
            thread.join(0.1)


@contextlib.contextmanager
def asked(cluster: LocalCluster) -> Iterator[Any]:
    from distributed import Client

    with Client(cluster.scheduler_address, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that no worker sees."""
    return tmp_path_factory.mktemp("hidden").resolve()


@pytest.fixture(scope="module")
def cluster(hidden: Path) -> Iterator[LocalCluster]:
    """A cluster of two worker processes, and of those that take the place of one that dies."""
    with started(n_workers=2) as cluster, asked(cluster) as client:
        client.register_plugin(blind_worker.Blind(str(hidden)))
        yield cluster


@pytest.fixture
def here(hidden: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, as the current folder, whose files count as long settled."""
    folder = hidden / request.node.name
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(store, "SETTLED", -(10**12))
    monkeypatch.setattr(executors, "FILES_PER_CALL", 2)
    monkeypatch.setattr(cluster_module, "judge", blind_worker.slow_judge)
    monkeypatch.setattr(executors, "_SECONDS_BETWEEN_LOOKS", 0.2)
    monkeypatch.setattr(cluster_module, "PATIENCE", 120.0)  # on a busy machine a worker is long in coming back
    monkeypatch.setattr(cluster_module, "_PACK", 5_000)
    return folder


def lay_out(folder: Path) -> None:
    """A project of many files: some cases of several files each, one that asks for versions, and some that are odd."""
    for part in PARTS:
        for path in sorted((PROJECTS / part).rglob("*.py")):
            if not path.name.endswith(RESULTS):
                to = folder / part / path.relative_to(PROJECTS / part)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)
    (folder / "versioned").mkdir()
    (folder / "versioned" / "requirements.txt").write_text("torchmetrics==1.4.0\n")
    (folder / "loaders" / "ruff.toml").write_text("line-length = 60\n")
    (folder / "versioned" / "feeds.py").write_text(FEEDS)
    (folder / "versioned" / "same.py").write_text(FEEDS)
    (folder / "broken.py").write_text("x = (\n")
    (folder / "large.py").write_text(FEEDS + "# large\n" * 10_000)


def many(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"m{number:02}.py").write_text(SUMS)


def run(
    *paths: str, cluster: LocalCluster | None = None, vanishing: Path | None = None, **options: Any
) -> list[Result]:
    executor = "processes" if cluster is None else f"dask={cluster.scheduler_address}"
    rules = Settings().rules

    def rules_for(path: str) -> tuple[Rule, ...]:
        if vanishing is not None:
            vanishing.unlink(missing_ok=True)  # after it has been found, and before it is read
        return rules

    return list(check_paths(paths or ["."], rules_for, TARGET, HINTS, jobs=1, executor=executor, **options))


def bare(results: list[Result]) -> list[Result]:
    """The results without what reports rest on, for that tells what is new to the process that says it."""
    return [each._replace(fingerprint=None) for each in results]


def kept(folder: Path) -> dict[str, Any]:
    """What documents hold that say the same of the same run."""
    known = {path.name: json.loads(path.read_bytes()) for path in sorted((folder / CACHE_FOLDER).glob("*.json"))}
    for name, document in known.items():
        document.pop("mark", None)
        if name.startswith("grounds"):
            known[name] = sorted(document)  # what was asked depends on what one process had been told before
    return known


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capfd.readouterr()
    status = main(arguments)
    return (status, *capfd.readouterr())


# -- the same as here --------------------------------------------------------------------------------------------------


def test_workers_are_blind_to_the_project(here: Path, cluster: LocalCluster) -> None:
    many(here, 1)
    assert blind_worker.sees(f"{here}/m00.py")
    with asked(cluster) as client:
        assert list(client.run(blind_worker.sees, f"{here}/m00.py").values()) == [False, False]
        assert all(not place.startswith(str(here)) for place in client.run(os.getcwd).values())


@pytest.mark.slow
@pytest.mark.parametrize("action", [Action.CHECK, Action.TRY])
def test_results_are_those_of_this_machine(
    here: Path, cluster: LocalCluster, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(here)
    monkeypatch.setattr(project_snapshot, "LARGEST", 50_000)
    local, remote = ([], [])
    for each, results in ((None, local), (cluster, remote)):
        (here / "vanishes.py").write_text(FEEDS)
        results += run(cluster=each, action=action, unsafe=True, vanishing=here / "vanishes.py")
    assert bare(remote) == bare(local)
    assert sum(len(each.report.diagnostics) for each in remote) > len(PARTS)
    assert {each.path for each in remote if each.report.failure is not None} == {"broken.py", "vanishes.py"}
    if action is Action.TRY:
        assert {"large.py", "versioned/feeds.py", "versioned/same.py"} <= {each.path for each in remote if each.applied}
    else:
        evidence = {step.path for each in remote for found in each.report.diagnostics for step in found.because}
        assert {"versioned/requirements.txt", "package_helper/train.py"} <= evidence
    with asked(cluster) as client:
        assert list(client.run(lambda: blind_worker.asked).values()) == [[], []]


@pytest.mark.slow
def test_fixes_are_made_there_and_written_here(
    here: Path, cluster: LocalCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    lay_out(here)
    shutil.copytree(here, here.parent / "twin", symlinks=True)
    printed = command(capfd, "--fix", "--executor", f"dask={cluster.scheduler_address}")
    fixed = {path.relative_to(here): path.read_bytes() for path in here.rglob("*.py") if path.exists()}
    os.chdir(here.parent / "twin")
    assert command(capfd, "--fix", "-j", "1") == printed
    assert "fixed" in printed[1]
    assert fixed == {path: (here.parent / "twin" / path).read_bytes() for path in fixed}


def test_what_is_kept_of_a_run_is_that_of_a_run_here(
    here: Path, cluster: LocalCluster, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(here)
    plain = command(capfd, "--output-format", "json", "-j", "1")
    known = kept(here)
    shutil.rmtree(CACHE_FOLDER)
    with monkeypatch.context() as patched:
        for module in (file_symbols, project_snapshot):
            patched.setattr(module, "symbols_of", None)  # facts come from workers
        assert command(capfd, "--output-format", "json", "--executor", f"dask={cluster.scheduler_address}") == plain
    assert kept(here) == known
    judged = []
    monkeypatch.setattr(
        jobs, "run_on", lambda job, *rest, real=jobs.run_on: judged.append(job.path) or real(job, *rest)
    )
    assert command(capfd, "--output-format", "json", "-j", "1") == plain
    assert judged == [], "it is all told from what was kept"
    assert command(capfd, "--output-format", "json", "--executor", "dask=tcp://127.0.0.1:1") == plain, (
        "nor is anybody asked"
    )


@pytest.mark.slow
def test_a_worker_with_threads_gives_the_same(here: Path) -> None:
    lay_out(here)
    with started(n_workers=1, threads_per_worker=4) as threads:
        assert bare(run(cluster=threads)) == bare(run())


# -- workers that die --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_is_killed_in_mid_run_changes_nothing(
    here: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "FILES_PER_CALL", 1)  # both workers have some to do
    many(here, 40)
    lay_out(here)
    plain = bare(run(action=Action.TRY))
    killed: list[int] = []
    with asked(cluster) as client:
        pids: list[int] = list(client.run(os.getpid).values())
        assert len(pids) == 2

        def kill() -> None:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

        with monkeypatch.context() as patched:
            once(patched, kill)
            remote = run(cluster=cluster, action=Action.TRY)
        assert killed == pids[:1]
        assert bare(remote) == plain
        client.wait_for_workers(2, timeout=120)
        assert killed[0] not in client.run(os.getpid).values()


@pytest.mark.parametrize("files_per_call", few([1, 16], 24))
def test_a_file_that_ends_every_worker_costs_a_line_and_the_others_are_linted(
    here: Path, monkeypatch: pytest.MonkeyPatch, files_per_call: int
) -> None:
    import dask

    monkeypatch.setattr(executors, "FILES_PER_CALL", files_per_call)
    monkeypatch.setattr(cluster_module, "judge", blind_worker.judge_or_end)
    many(here, 4)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        started(n_workers=0) as lonely,
        worker_restarted(lonely.scheduler_address),
    ):
        with asked(lonely) as client:
            client.wait_for_workers(1, timeout=120)
        plain = bare(run(cluster=lonely))
        (here / "poison.py").write_text(SUMS)
        results = bare(run(cluster=lonely))
    assert results == [*plain, failed(Failure("poison.py", None, None, "not checked: a worker process was ended"))]


@pytest.mark.slow
def test_a_run_whose_workers_are_all_gone_ends_and_writes_nothing(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    many(here, 100)
    with started(n_workers=1) as lonely, asked(lonely) as client:
        (pid,) = client.run(os.getpid).values()

        async def start_none() -> None:
            pass

        def end() -> None:
            for nanny in lonely.workers.values():
                nanny.instantiate = start_none
            os.kill(pid, signal.SIGKILL)

        once(monkeypatch, end)
        status, out, error = command(capfd, "--fix", "--executor", f"dask={lonely.scheduler_address}")
        assert (status, out) == (2, "")
        assert error == (
            f"torchperf-lint: error: the dask cluster {lonely.scheduler_address} has no workers any more\n"
        )
    assert {path.read_text() for path in here.glob("*.py")} == {SUMS}


@pytest.mark.slow
def test_a_run_whose_scheduler_is_gone_ends_and_writes_nothing(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.5)
    many(here, 100)
    with started(n_workers=1) as lonely:
        address = lonely.scheduler_address
        once(monkeypatch, lonely.close)
        status, out, error = command(capfd, "--fix", "--executor", f"dask={address}")
    assert (status, out) == (2, "")
    assert re.fullmatch(f"torchperf-lint: error: the dask [^\n]*{re.escape(address)}[^\n]*\n", error), error
    assert {path.read_text() for path in here.glob("*.py")} == {SUMS}


def once(monkeypatch: pytest.MonkeyPatch, happening: Callable[[], None]) -> None:
    """Let something happen when all has been asked for, and before the first results can be there."""
    real, waiting = executors._collected, [happening]

    def collected(*given: Any) -> Iterator[Result]:
        for each in [*waiting]:
            waiting.remove(each)
            each()
        yield from real(*given)

    monkeypatch.setattr(executors, "_collected", collected)


def test_an_interrupt_leaves_nothing_to_do(here: Path, cluster: LocalCluster) -> None:
    many(here, 40)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cluster=cluster, progress=interrupt)
    scheduler = cluster.scheduler
    deadline = time.monotonic() + 20
    while scheduler.tasks and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not scheduler.tasks
    assert not [each for each in scheduler.clients.values() if each.wants_what]


class Failing(Executor):
    """An executor whose calls fail where a file is among them that ends every process."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if "poison.py" in [job.path for job in given[0]]:
            future.set_exception(ZeroDivisionError())
        else:
            future.set_result(function(*given, **named))
        return future


def test_calls_that_nobody_waits_for_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "FILES_PER_CALL", 1)
    futures: list[Future[Any]] = [Future() for _ in range(3)]
    waiting = iter(futures)
    monkeypatch.setattr(Failing, "submit", lambda *_: next(waiting))
    work = [Job(path, (), TARGET, HINTS) for path in ("a.py", "b.py", "c.py")]
    futures[0].set_result([Result("a.py", FileReport())])
    with contextlib.closing(drive(Failing(), judge, work, ended=ZeroDivisionError)) as results:
        assert next(results).path == "a.py"
    assert [each.cancelled() for each in futures] == [False, True, True]


@pytest.mark.parametrize("files_per_call", [1, 2, 5])
def test_a_call_that_ends_every_process_is_done_again_file_by_file(
    monkeypatch: pytest.MonkeyPatch, files_per_call: int
) -> None:
    monkeypatch.setattr(executors, "FILES_PER_CALL", files_per_call)
    paths = ["a.py", "poison.py", "x.py", "y.py", "z.py"]
    work = [Job(path, (), TARGET, HINTS) for path in paths]
    calls: list[list[str]] = []

    def judge_all(jobs: Sequence[Job]) -> list[Result]:
        calls.append([job.path for job in jobs])
        return [Result(job.path, FileReport()) for job in jobs]

    results = list(drive(Failing(), judge_all, work, ended=ZeroDivisionError))
    assert [each.path for each in results] == paths
    lost = failed(Failure("poison.py", None, None, "not checked: a worker process was ended"))
    assert [each for each in results if each.report.failure is not None] == [lost]
    assert sorted(path for call in calls for path in call) == ["a.py", "x.py", "y.py", "z.py"]


# -- what cannot be --------------------------------------------------------------------------------------------------


def test_a_scheduler_that_cannot_be_reached(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTING", 0.3)
    many(here, 2)
    status, out, error = command(capfd, "--fix", "--executor", "dask=tcp://127.0.0.1:1")
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("torchperf-lint: error: the dask scheduler tcp://127.0.0.1:1 cannot be reached: ")
    assert sorted(os.listdir(here)) == [".git", "m00.py", "m01.py"]
    assert (here / "m00.py").read_text() == SUMS


def test_an_address_where_nobody_speaks(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTING", 0.3)
    many(here, 1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        status, out, error = command(capfd, "--executor", f"dask={address}")
    assert (status, out) == (2, "")
    assert re.fullmatch(f"torchperf-lint: error: the dask [^\n]*{re.escape(address)}[^\n]*\n", error), error


def test_a_scheduler_without_workers(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECTING", 3.0)
    many(here, 1)
    with started(n_workers=0) as empty:
        status, _, error = command(capfd, "--executor", f"dask={empty.scheduler_address}")
        assert (status, error) == (
            2,
            f"torchperf-lint: error: the dask scheduler {empty.scheduler_address} has no workers\n",
        )


def test_workers_that_have_another_version(
    here: Path, cluster: LocalCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    many(here, 1)
    with asked(cluster) as client:
        client.run(blind_worker.pretend, "torchperf-lint 0")
        try:
            status, _, error = command(capfd, "--executor", f"dask={cluster.scheduler_address}")
        finally:
            client.run(blind_worker.pretend, None)
    assert (status, error.count("\n")) == (2, 1)
    assert error.startswith("torchperf-lint: error: the worker tcp://127.0.0.1:")
    assert error.endswith(f" has torchperf-lint 0; this is {tool_fingerprint.portable_stamp()}\n")


def test_a_worker_that_comes_later_with_another_version_judges_nothing(here: Path) -> None:
    many(here, 1)
    snapshot = project_snapshot.gather(["m00.py"], HINTS)
    with pytest.raises(Unusable, match=r"a worker has torchperf-lint .* with libcst .*; this is another"):
        judge([], Project("another", snapshot, {}, {}, {}))


def test_what_a_worker_has_worked_out_does_not_travel(here: Path) -> None:
    many(here, 1)
    snapshot = project_snapshot.gather(["m00.py"], HINTS)
    (key,) = snapshot.facts
    project = Project("", snapshot, {key: ("digest", None)}, {}, {})
    small = len(pickle.dumps(project))
    project.unpack([{"digest": SUMS.encode()}])
    assert project.program().analyzed(key) is not None
    assert len(pickle.dumps(project)) == small


def test_dask_is_an_extra(here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    many(here, 1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, out, error = command(capfd, "--executor", "dask=tcp://127.0.0.1:1")
    wanted = "torchperf-lint: error: dask is not installed: pip install 'torchperf-lint[dask]'\n"
    assert (status, out, error) == (2, "", wanted)


@pytest.mark.parametrize("name", ["", "threads", "dask", "dask=", "dask=host", "dask=tcp://", "dask=://host"])
def test_a_name_of_no_executor_is_a_bad_option(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--executor", name])
    assert ended.value.code == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == (
        f"torchperf-lint: error: argument --executor: `{name}` is no executor: `processes` is, "
        "and `dask=tcp://HOST:PORT`"
    )


def test_processes_are_not_counted_for_a_cluster(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["-j", "2", "--executor", "dask=tcp://127.0.0.1:1"])
    assert ended.value.code == 2
    assert "--jobs counts processes of this machine" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        main(["-j", "2", "--executor", "processes", "--version"])
