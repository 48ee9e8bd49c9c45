"""Accuracy on packages that nobody had linted or read before: recall and false alarms at first contact, by rounds.

A round is five packages from PyPI. Readers label at least 100 sites of them in first_contact_sites.tsv, as for
accuracy.py; they see the code and the rules' pages, never the linter's findings. Each label is read twice, the second
time without the first verdict, and is kept where the two agree. Only then is the linter run, once, with `--record`:
its figures go to first_contact.tsv, which is never edited afterwards. What is mended after that makes the round's
packages known ones, so a later run of the same round is no first contact.

`python benchmarks/first_contact.py ROUND` brings the packages and prints the figures of this checkout. With `--files`,
a round is of files that nobody had read, in packages that had been linted before (unread_files_sites.tsv).
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from accuracy import COLUMNS, Outcome, Site, labelled, show
from linter import CHECKOUT, lint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SITES = Path(__file__).with_name("first_contact_sites.tsv")
FIGURES = Path(__file__).with_name("first_contact.tsv")
FILES = Path(__file__).with_name("unread_files_sites.tsv"), Path(__file__).with_name("unread_files.tsv")
"""The same tables for files of known packages that nobody had read; each label is of one reader, who read it twice."""
FIGURE_COLUMNS = ("round", "commit", "group", "name", "flag", "found", "ok", "flagged")
DEFAULT_FOLDER = Path.home() / ".cache" / "torchperf-lint-first-contact"


class Figures(NamedTuple):
    """One row of the table: how many sites are to be flagged and are found, are to be left alone and are flagged."""

    round: int
    commit: str
    group: str
    name: str
    flag: int
    found: int
    ok: int
    flagged: int


def rounds(path: Path = SITES) -> dict[int, list[Site]]:
    """The labelled sites by round; exits with the line's number where one is malformed."""
    found: dict[int, list[Site]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not lines or tuple(lines[0]) != ("round", *COLUMNS):
        raise SystemExit(f"{path}:1: the columns must be round, {', '.join(COLUMNS)}")
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / path.name
        plain.write_text("".join("\t".join(line[1:]) + "\n" for line in lines), encoding="utf-8")
        for line, site in zip(lines[1:], labelled(plain), strict=True):
            found[int(line[0])].append(site)
    return dict(found)


def recorded(path: Path = FIGURES) -> list[Figures]:
    """The figures of the finished rounds."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Figures(int(row[0]), row[1], row[2], row[3], *map(int, row[4:])) for row in rows[1:]]


def bring(name: str, version: str, folder: Path, suffixes: tuple[str, ...] = (".py",), *, source: bool = False) -> None:
    """Download a package of that version and unpack its Python files into the folder; `source`: its sdist."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={scratch}"]
        way = ["--no-binary=:all:"] if source else ["--no-build-isolation"]
        try:
            subprocess.run([*pip, *way, f"{name}=={version}"], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            if source:
                raise
            # pip asks an archive for its metadata, which some only make in a build environment of their own.
            subprocess.run([*pip, f"{name}=={version}"], check=True, capture_output=True)
        (archive,) = Path(scratch).iterdir()
        for path, content in _members(archive):
            if path.suffix in suffixes and not path.is_absolute() and ".." not in path.parts:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                yield PurePosixPath(name), wheel.read(name)
    else:
        with tarfile.open(archive) as source:
            for member in source:
                content = source.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield PurePosixPath(member.name), content.read()


def outcomes(sites: Iterable[Site], folder: Path) -> Iterator[Outcome]:
    """Lint each package as a whole, and compare its sites with the findings; exits if the linter fails."""
    per_package: dict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in sites:
        per_package[site.project, site.version].append(site)
    for (name, version), mine in per_package.items():
        place = folder / f"{name}-{version}"
        if not place.is_dir():
            bring(name, version, place)
        report = lint(place, "--no-cache")
        missing = [site.path for site in mine if not (place / site.path).is_file()]
        if report.crashed or missing:
            raise SystemExit("\n".join([f"{name}: the linter failed, or files are missing", *missing[:5]]))
        for site in mine:
            codes = (found.code for found in report.places if (found.path, found.line) == (site.path, site.line))
            yield Outcome(site, frozenset(codes))


def figures(number: int, found: Iterable[Outcome]) -> Iterator[Figures]:
    """The rows of a round: all sites, those beyond one function, by reach, by package and by rule."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout.strip()
    grouped: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in found:
        reach = one.site.reach
        groups = [("all", "all"), ("reach", reach), ("package", one.site.project), ("rule", one.site.code)]
        for group in [*groups, *([("all", "beyond one function")] if reach != "local" else [])]:
            grouped[group].append(one)
    for (group, name), inside in sorted(grouped.items()):
        flags = [one for one in inside if one.site.verdict == "flag"]
        others = [one for one in inside if one.site.verdict == "ok"]
        hits, alarms = sum(one.flagged for one in flags), sum(one.flagged for one in others)
        yield Figures(number, commit, group, name, len(flags), hits, len(others), alarms)


def record(rows: Iterable[Figures], path: Path = FIGURES) -> None:
    """Append a round's figures to the table, which must not have any of that round."""
    new = list(rows)
    known = recorded(path)
    if {row.round for row in new} & {row.round for row in known}:
        raise SystemExit("the figures of this round's first run are recorded; they are never edited")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        writer.writerow(FIGURE_COLUMNS)
        writer.writerows([*known, *new])


def main() -> None:
    """Print the figures of a round, and record them if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("round", type=int, help="the round's number")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where the packages lie")
    parser.add_argument("--errors", action="store_true", help="list the sites that are missed or flagged wrongly")
    parser.add_argument("--record", action="store_true", help="write the figures of the round's first run to the table")
    parser.add_argument("--files", action="store_true", help="a round of files that nobody had read")
    options = parser.parse_args()
    table, kept = FILES if options.files else (SITES, FIGURES)
    sites = rounds(table).get(options.round)
    if sites is None:
        raise SystemExit(f"there is no round {options.round}")
    found = list(outcomes(sites, options.folder))
    show(found, with_errors=options.errors)
    if options.record:
        record(figures(options.round, found), kept)


if __name__ == "__main__":
    sys.exit(main())
