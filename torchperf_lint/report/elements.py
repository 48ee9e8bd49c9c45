"""Elements of HTML and SVG, and self-contained pages of them: every text is escaped unless it is markup already."""

from __future__ import annotations

import html
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

_CAN_BE_EMPTY = frozenset({"br", "circle", "line", "meta", "rect", "wbr"})
_NO_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")  # in XML or HTML


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Any text as markup, in a form that HTML and XML read alike; what neither may hold is replaced."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_NO_CHARACTERS.sub("\ufffd", text)))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element. Names of attributes are written `class_` and `aria_hidden`; one that is None or False is left out."""
    shown = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _CAN_BE_EMPTY and not children:
        return Markup(f"<{name}{shown}/>")
    return Markup(f"<{name}{shown}>{join(children)}</{name}>")


def join(parts: Iterable[str], separator: str = "") -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup(escaped(separator).join(map(escaped, parts)))


def broken(path: str) -> Markup:
    """A path that may be broken behind its slashes, where a line has no room for it."""
    return join(path.split("/"), Markup(f"/{tag('wbr')}"))


def document(title: str, parts: Iterable[str], style: str) -> str:
    """A self-contained page with that style sheet."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    body = tag("body", tag("main", join(parts, "\n")))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def picture(name: str, *shapes: str, height: float, description: str = "") -> Markup:
    """An inline SVG as wide as there is room; shapes are placed in percent across and in pixels down."""
    about = [tag("title", name), *([tag("desc", description)] if description else [])]
    return tag("svg", *about, *shapes, role="img", width="100%", height=height)


def percent(share: float) -> str:
    """A share of the whole as a coordinate of `picture`."""
    return f"{plain(100 * share)}%"


def plain(value: float | Fraction) -> str:
    """A number as tables show it: at most three decimals, and a dash where there is none."""
    value = float(value)
    return f"{round(value, 3):g}" if math.isfinite(value) else "–"


def _attribute(key: str, value: str | float | bool | None) -> str:
    text = plain(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
    name = key.rstrip("_").replace("_", "-")
    return f' {name}="{escaped("" if text is True else str(text))}"'
