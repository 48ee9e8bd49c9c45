"""The tuning set: its contents, its location, and its download.

`python benchmarks/corpus.py [--corpus DIR] [--project NAME] [--pypi]` fetches missing projects. Only Python files are
kept, one folder per project; nothing of a project is built or run. An existing folder is used as it is, so an
unreachable project can be placed there by hand.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_CORPUS = Path("~/.cache/torchperf-lint-corpus").expanduser()


class Project(NamedTuple):
    """One entry of corpus.toml."""

    name: str
    kind: str
    address: str
    version: str
    folder: str = ""
    pip: tuple[str, ...] = ()


class NotFetched(Exception):
    """A project could not be fetched; the message says why."""


def projects(only: str | None = None) -> list[Project]:
    """All projects of the tuning set, or the one called `only`; exits with a message where there is none."""
    listed: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["project"]
    found = [Project(**entry) for entry in listed if only in {None, entry["name"]}]
    if not found:
        raise SystemExit(f"no project `{only}`; there are {', '.join(entry['name'] for entry in listed)}")
    return found


def present(corpus: Path, only: str | None = None) -> list[Project]:
    """The projects whose folders are in `corpus`; the others are named on stderr."""
    found = []
    for project in projects(only):
        if (corpus / project.name).is_dir():
            found.append(project)
        else:
            print(f"{project.name}: not in {corpus}; run benchmarks/corpus.py", file=sys.stderr)
    if not found:
        raise SystemExit(f"none of the projects lies in {corpus}")
    return found


def python_files(folder: Path) -> list[Path]:
    """Every Python file below `folder`, sorted."""
    return sorted(path for path in folder.rglob("*.py") if path.is_file())


def fetch(project: Project, corpus: Path) -> None:
    """Fetch `project` into its folder below `corpus`; raises NotFetched."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = (_wheel if project.kind == "pypi" else _repository)(project, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        for name, content in archive:
            target = unpacked / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if not unpacked.is_dir():
            raise NotFetched("there is no Python file in it")
        corpus.mkdir(parents=True, exist_ok=True)
        shutil.move(unpacked, corpus / project.name)


def _wheel(project: Project, scratch: Path) -> Iterator[tuple[str, bytes]]:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *project.pip]
    _run(*pip, f"--dest={scratch}", f"{project.address}=={project.version}")
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in filter(_wanted, archive.namelist()):
            yield name, archive.read(name)


def _repository(project: Project, scratch: Path) -> Iterator[tuple[str, bytes]]:
    url = project.address.replace("github:", "https://github.com/", 1)
    git = ["git", "-C", str(scratch)]
    _run(*git, "init", "--quiet", "--bare")
    _run(*git, "fetch", "--quiet", "--depth=1", url, project.version)
    packed = scratch / "source.tar"
    _run(*git, "archive", "FETCH_HEAD", f"--output={packed}", *filter(None, [project.folder]))
    with tarfile.open(packed) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() and _wanted(member.name) else None
            if content:
                yield member.name, content.read()


def _wanted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NotFetched(f"there is no {command[0]} on this machine") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit status {error.returncode}"]
        raise NotFetched(lines[-1]) from None


def corpus_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all corpus scripts share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--corpus", type=Path, default=DEFAULT_CORPUS, metavar="DIR", help="where the projects lie")
    parser.add_argument("--project", metavar="NAME", help="this project only")
    return parser


def main() -> int:
    parser = corpus_parser(__doc__)
    parser.add_argument("--pypi", action="store_true", help="only those from PyPI: all that `make bench` needs")
    options = parser.parse_args()
    failed = 0
    for project in projects(options.project):
        if options.pypi and project.kind != "pypi":
            continue
        folder = options.corpus / project.name
        try:
            if not folder.is_dir():
                fetch(project, options.corpus)
            print(f"{project.name:<22} {project.version:<41} {len(python_files(folder)):>5} files")
        except NotFetched as error:
            failed += 1
            print(f"{project.name}: error: {error}", file=sys.stderr)
            if project.kind == "repository":
                below = f" (its folder {project.folder}/)" if project.folder else ""
                print(f"  lay {project.address} at {project.version}{below} into {folder} by hand", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
