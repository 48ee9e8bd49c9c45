"""Texts that are composed at run time: the one part that is no literal, and what it must be."""

from __future__ import annotations

import ast

import pytest

from torchperf_lint.model.syntax.texts import rest_of


@pytest.mark.parametrize(
    ("code", "rest"),
    [
        ('f"{stage}_step"', ("stage", "train")),
        ('f"tra{middle}_step"', ("middle", "in")),
        ('stage + "_step"', ("stage", "train")),
        ('"train_" + kind', ("kind", "step")),
        ('"%s_step" % stage', ("stage", "train")),
        ('f"{stage}_mode"', ("stage", "")),
        ('f"{stage}_{kind}"', None),
        ('f"{stage!r}_step"', None),
        ("stage + kind", None),
        ('"train_step"', None),
    ],
)
def test_rest_of_a_composed_text(code: str, rest: tuple[str, str] | None) -> None:
    found = rest_of(ast.parse(code, mode="eval").body, "train_step")
    assert (None if found is None else (ast.unparse(found[0]), found[1])) == rest
