"""`ast.parse` for several threads: in CPython before 3.11.8 and 3.12.2, two at a time can end in a SystemError.

Their parser counts the depth of the trees that it builds in one number for all threads (CPython's issue 106905).
"""

from __future__ import annotations

import ast
import threading
import warnings

_parsing = threading.RLock()
"""Reentrant, for the garbage collector may run code that parses, too."""


def parse_module(text: str) -> ast.Module:
    """The tree of a module, without Python's warnings about its text; raises what `ast.parse` raises."""
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The tree of an expression, without Python's warnings about its text; raises what `ast.parse` raises."""
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body


def fault_of(tree: ast.Module) -> str | None:
    """Why a module that parses does not compile (a keyword that is given twice, a `return` outside a function).

    A notebook's `await` outside a function is no fault.
    """
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, "module", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            return error.msg if isinstance(error, SyntaxError) else str(error)
        except (RecursionError, MemoryError):  # the text may be in order
            pass
    return None
