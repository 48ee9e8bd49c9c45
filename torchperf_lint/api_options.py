"""What callers of the library give as options: checked, and as the command line's parser would have it.

Each function raises ValueError for a wrong value and TypeError for one of a wrong type, with the option's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torchperf_lint.config_keys import checked_globs, checked_selectors
from torchperf_lint.engine.findings import checked_confidence, checked_severity
from torchperf_lint.knowledge.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Callable


def options_of(
    *,
    lists: Mapping[str, Iterable[str] | None],
    globs: Mapping[str, Iterable[str] | None],
    levels: tuple[str | None, str | None],
    targets: tuple[str | None, str | None],
    **plain: str | bool | None,
) -> dict[str, Any]:
    """The options that the command line's parser would make of these; `levels` are of confidence and severity."""
    if plain["baseline"] is not None and plain["no_baseline"]:
        raise ValueError("`no_baseline` cannot stand beside `baseline`")
    confidence, severity = levels
    torch, torchmetrics = targets
    return {
        **{name: _checked(name, checked_selectors, _listed(name, given)) for name, given in lists.items()},
        **{name: _checked(name, checked_globs, _listed(name, given)) for name, given in globs.items()},
        "min_confidence": _checked("min_confidence", checked_confidence, _text("min_confidence", confidence)),
        "min_severity": _checked("min_severity", checked_severity, _text("min_severity", severity)),
        "target_torch": _checked("target_torch", parse_version, _text("target_torch", torch)),
        "target_torchmetrics": _checked(
            "target_torchmetrics", parse_version, _text("target_torchmetrics", torchmetrics)
        ),
        **plain,
    }


def _checked(name: str, check: Callable[[Any], Any], given: Any) -> Any:
    """What the check makes of an option that is given; raise ValueError with the option's name."""
    if given is None:
        return None
    try:
        return check(given)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from None


def _listed(name: str, given: object) -> list[str] | None:
    if given is None:
        return None
    if isinstance(given, str):  # whose letters would be taken for selectors
        raise TypeError(f"`{name}` is a list of strings, not one string")
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"`{name}` is a list of strings, not {given!r}")
    listed = list(given)
    for each in listed:
        if not isinstance(each, str):
            raise TypeError(f"`{name}` is a list of strings, and {each!r} is none")
    return listed


def _text(name: str, given: str | None) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"`{name}` is a string, not {given!r}")
    return given


def path_of(name: str, given: object) -> str | None:
    """The value of an option that is a path."""
    return None if given is None else _path(name, given)


def _path(name: str, given: object) -> str:
    path: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str):
        raise TypeError(f"`{name}` is a path, not {given!r}")
    return path


def processes(given: object) -> int | None:
    """The value of `jobs`."""
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"`jobs` is a number of processes, not {given!r}")
    if given < 1:
        raise ValueError(f"`jobs`: {given} is not a number of processes")
    return given


def paths_of(given: object) -> list[str]:
    """The paths of a call."""
    if isinstance(given, str | os.PathLike):
        given = [given]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise TypeError(f"`paths` is a path or a list of paths, not {given!r}")
    return [_path("paths", each) for each in given]


def sources_of(given: object) -> str | bytes | dict[str, str | bytes]:
    """The sources of a call: one text, or texts by their paths."""
    if given is None:
        return {}
    if isinstance(given, str | bytes):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"`sources` is a text or maps paths to texts, not {given!r}")
    texts: dict[str, str | bytes] = {}
    for each, text in given.items():
        path: object = os.fspath(each) if isinstance(each, os.PathLike) else each
        if not isinstance(path, str):
            raise TypeError(f"`sources` maps paths to texts, and {each!r} is no path")
        if not isinstance(text, str | bytes):
            raise TypeError(f"`sources` is a text or maps paths to texts, and {text!r} of {path!r} is none")
        if "\0" in path:
            raise ValueError("the path of a source cannot have a null character")
        texts[path] = text
    return texts
