"""A preview of our fixes on the user's program: a copy is laid out, fixed, run, and compared with unfixed runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import DEFAULT_EXCLUDE
from torchperf_lint.engine.jobs import Action
from torchperf_lint.engine.project_root import root_of
from torchperf_lint.syntax.identity import key_of
from torchperf_lint.verify import effects
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.mirror import as_it_is, lay_out
from torchperf_lint.verify.pairs import dangers
from torchperf_lint.verify.workloads import Agreement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from torchperf_lint.engine.findings import Applied
    from torchperf_lint.verify.mirror import Earlier
    from torchperf_lint.verify.runs import Run
    from torchperf_lint.verify.sources import Linter, Sources

SAME, DIFFERENT, BY_ITSELF, NOTHING = (
    "the same",
    "different",
    "the same but for what differs without the fixes, too",
    "none",
)
"""How an aspect of two runs compares."""


class Copy(NamedTuple):
    """A runnable copy of a program in `folder`.

    `files` are the copies of its source files by their real paths. `paths` are pairs of module folders: where the
    module path has the first, the second is put before it.
    """

    script: Path
    folder: Path
    files: dict[str, str]
    paths: tuple[tuple[str, str], ...]


class Fixed(NamedTuple):
    """A file's bytes without and with our fixes, and the fixes."""

    before: bytes
    data: bytes
    applied: tuple[Applied, ...]


class Compared(NamedTuple):
    """The comparison of one of `effects.ASPECTS` between the fixed and the unfixed copy, with the differences."""

    aspect: str
    verdict: str
    texts: tuple[str, ...]


class Preview(NamedTuple):
    """A program without and with our fixes.

    `runs` are two of the unfixed copy, whose differences are not due to fixes, and one of the fixed copy.
    `stray` are files with fixes that the fixed program did not load from the copy. `obstacle` says why there are no
    runs, or why they cannot be compared.
    """

    fixes: dict[str, Fixed]
    runs: tuple[Run, ...] = ()
    compared: tuple[Compared, ...] = ()
    dangers: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    obstacle: str = ""

    @property
    def before(self) -> Run:
        """The first run of the copy as it is."""
        return self.runs[0]

    @property
    def after(self) -> Run:
        """The run of the fixed copy."""
        return self.runs[-1]


def before_a_run(script: str) -> Earlier:
    """The current state of the folders that a script may write to: its project and the current folder."""
    return as_it_is(dict.fromkeys([_project_of(script), os.path.realpath(os.curdir)]))


def _project_of(script: str) -> str:
    return os.path.normpath(root_of([key_of(script)]))


def copy_of(sources: Sources, into: Path, *, earlier: Earlier | None = None) -> Copy:
    """Lay out a program in a folder of its own: its project, the packages of its other files, its current folder.

    The outputs of a program that ran since the `earlier` state are left out. Raise OSError on failure.
    """
    root = _project_of(sources.script)
    included = [os.path.realpath(place) for place in sources.places]
    names = {os.path.realpath(path): name for path, name in sources.modules.items()}
    wholes = {path: whole for path, name in names.items() if (whole := _whole(path, name, root, included))}
    placed: dict[str, str] = {}
    for number, whole in enumerate(dict.fromkeys([root, *wholes.values()])):
        placed[whole] = str(into / str(number) / os.path.basename(whole))
        os.makedirs(into / str(number))
        if os.path.isdir(whole):
            lay_out(whole, placed[whole], wholes, earlier=earlier)
        else:
            shutil.copy2(whole, placed[whole])
    files = {path: placed[whole] + path[len(whole) :] for path, whole in wholes.items()}
    pairs = [(_import_root(path, names[path]), _import_root(copy, names[path])) for path, copy in files.items()]
    paths = dict.fromkeys((old, new) for old, new in pairs if old and new)
    script = files[os.path.realpath(sources.script)]
    return Copy(Path(script), _current_folder(root, placed[root], into, earlier), files, tuple(paths))


def _whole(path: str, name: str, root: str, included: Sequence[str]) -> str | None:
    """The folder or file to lay out as a whole for a source file; None if unknown."""
    inner = os.path.relpath(path, root).split(os.sep)
    if inner[0] != os.pardir and not set(inner[:-1]) & set(DEFAULT_EXCLUDE):
        return root
    for place in included:
        if path == place or path.startswith(os.path.join(place, "")):
            return place
    import_root = _import_root(path, name)
    if import_root is None:
        return None
    package = os.path.join(import_root, name.partition(".")[0])
    return package if os.path.isdir(package) else path


def _import_root(path: str, name: str) -> str | None:
    """The module folder from which a file has this module name; None if its path does not fit the name."""
    stem = name.replace(".", os.sep)
    for tail in (f"{os.sep}{stem}.py", f"{os.sep}{stem}{os.sep}__init__.py"):
        if name and path.endswith(tail):
            return path.removesuffix(tail)
    return None


def _current_folder(root: str, copied_root: str, into: Path, earlier: Earlier | None) -> Path:
    """The copy of the current folder: within that of the project, or one of its own."""
    here = os.path.realpath(os.curdir)
    copied = os.path.normpath(os.path.join(copied_root, os.path.relpath(here, root)))
    if os.path.join(os.path.realpath(copied), "").startswith(os.path.join(os.path.realpath(copied_root), "")):
        return Path(copied)
    lay_out(here, str(into / "here"), (), earlier=earlier, deep=False)
    return into / "here"


def fixes_of(linter: Linter, *, unsafe: bool) -> dict[str, Fixed]:
    """The source files that `--fix` would change, by path. Nothing is written."""
    results = linter.results(Action.TRY, unsafe=unsafe)
    return {each.path: Fixed(each.before, each.data, each.applied) for each in results if each.data != each.before}


def apply_fixes(copy: Copy, fixes: Mapping[str, Fixed]) -> None:
    """Write fixed files over their copies."""
    for path, fixed in fixes.items():
        target = copy.files.get(os.path.realpath(path))
        if target is not None:
            Path(target).write_bytes(fixed.data)


def preview(
    sources: Sources, fixes: Mapping[str, Fixed], start: Callable[[Copy], Run], *, earlier: Earlier | None = None
) -> Preview:
    """Run a copy unfixed, twice, and fixed, each laid out anew at the same place, and compare them.

    `start` runs a copy to its end; `earlier` is as for `copy_of`. Raise OSError where no copy can be made.
    What differs between the two unfixed runs is not compared, because it says nothing about fixes.
    """
    if not fixes:
        return Preview({}, obstacle="there is no fix to apply")
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as place:
        for wanted in ({}, {}, fixes):
            into = Path(os.path.realpath(place)) / "copy"
            copy = copy_of(sources, into, earlier=earlier)
            apply_fixes(copy, wanted)
            begun = time.time()
            run = start(copy)
            runs.append(_at_originals(run._replace(written=_written(into, begun)), copy))
            loaded = {file for file, its_copy in copy.files.items() if its_copy in run.report["files"]}
            shutil.rmtree(into)
            if run.status != OK:
                what = "the fixed copy" if wanted else "a copy as it is"
                return Preview(dict(fixes), tuple(runs), obstacle=f"{what} {run.status}: {run.report['error']}")
    first, again, after = runs
    stray = tuple(path for path in fixes if os.path.realpath(path) not in loaded)
    compared = tuple(compare(first, again, after))
    return Preview(dict(fixes), tuple(runs), compared, tuple(dangers(first, after)), stray)


def compare(first: Run, again: Run, after: Run) -> Iterator[Compared]:
    """Compare a fixed run with two unfixed ones, aspect by aspect."""
    by_itself = list(effects.differences(first, again, Agreement()))
    found = list(effects.differences(first, after, Agreement()))
    new = [each for each in found if not any(each.is_within(other) for other in by_itself)]
    for aspect in effects.ASPECTS:
        texts = tuple(each.text for each in new if each.aspect == aspect)
        if texts:
            yield Compared(aspect, DIFFERENT, texts)
        elif any(each.aspect == aspect for each in by_itself):
            yield Compared(aspect, BY_ITSELF, ())
        elif effects.is_there(aspect, first):
            yield Compared(aspect, SAME, ())
        else:
            refusal = first.report.get("not_comparable") if aspect == effects.RESULTS else None
            yield Compared(aspect, NOTHING, (refusal,) if refusal else ())


def _written(folder: Path, since: float) -> dict[str, str]:
    """The files below a folder that were written since a time, with a digest of each."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_mtime >= since:
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _at_originals(run: Run, copy: Copy) -> Run:
    """A run of a copy with places mapped back to the original files; a fix may have shifted rows."""
    originals = {new: old for old, new in copy.files.items()}

    def place(old: Sequence[Any] | None) -> list[Any] | None:
        return [originals.get(old[0], old[0]), *old[1:]] if old else None

    events = [{**each, "where": place(each["where"]), "via": place(each["via"])} for each in run.report["events"]]
    steady = [[step, *(place(where) or ())] for step, *where in run.report["steady"]]
    files = [originals.get(file, file) for file in run.report["files"]]
    moved = {"events": events, "steady": steady, "failed_at": place(run.report.get("failed_at")), "files": files}
    return run._replace(report={**run.report, **moved})
