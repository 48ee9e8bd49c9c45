"""The frame of a page: one HTML document that loads nothing."""

from __future__ import annotations

from pathlib import Path

from torchperf_lint.verify.page.markup import Markup, join, tag


def document(title: str, *parts: str) -> str:
    """The text of a page with our style, whose parts stand one after the other."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', join(parts, chr(10)))), lang='en')}\n"


def facts(named: dict[str, str | int]) -> Markup:
    """A list of what is to be known of a run; what is empty is a dash."""
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", str(value) if value != "" else "–")) for name, value in named.items()),
    )
