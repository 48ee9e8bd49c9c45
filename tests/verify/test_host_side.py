"""What a program costs the host: the threads that libraries start in its workers."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import _thread, multiprocessing, threading, time
from torchperf_lint.verify.host_side import WorkerThreads

def busy(threads):
    for _ in range(threads):
        _thread.start_new_thread(time.sleep, (30,))  # as a library's are, unknown to `threading`
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()

fork = multiprocessing.get_context("fork")
fork.Process(target=busy, args=(5,)).start()  # before anything is counted
counted = WorkerThreads()
counted.watch()
workers = [fork.Process(target=busy, args=(threads,)) for threads in (0, 1, 3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(counted.count)
"""


def test_the_threads_of_workers_are_counted_but_for_those_of_python():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "4\n"
