"""XML for the formats that are made of it: any text in it, and all of it ASCII."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, escaped or not."""


def add(parent: ElementTree.Element, tag: str, /, **attributes: object) -> ElementTree.Element:
    """Append an element with these attributes to the parent; attributes that are None are left out."""
    texts = {name: holdable(str(value)) for name, value in attributes.items() if value is not None}
    return ElementTree.SubElement(parent, tag, texts)


def holdable(text: str) -> str:
    """`text` with a replacement for each character that XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def document(root: ElementTree.Element) -> Iterator[str]:
    """Yield the text of an XML document; being ASCII, it is well-formed in whatever encoding a terminal has."""
    ElementTree.indent(root, "    ")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield ElementTree.tostring(root, encoding="us-ascii", xml_declaration=False).decode()
