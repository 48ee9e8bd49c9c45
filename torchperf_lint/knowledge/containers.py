"""Methods of Python's lists, deques, dicts and sets that change them, and functions that change what they are given."""

from __future__ import annotations

ADD_ONE = frozenset("add append appendleft insert".split())
"""Methods that put one element into a list, a deque or a set."""

GROW = ADD_ONE | {"extend"}
"""Methods that put elements into a list, a deque or a set."""

FILL = GROW | {"extendleft", "setdefault", "update"}
"""Methods that put elements into any container."""

EMPTY = frozenset("clear discard pop popitem popleft remove".split())
"""Methods that take elements out of any container."""

CHANGE_LISTS = frozenset(
    "append appendleft clear extend extendleft insert pop popleft remove reverse rotate sort".split()
)
"""All methods that change a list or a deque."""

CHANGE_DICTS = frozenset("clear pop popitem setdefault update".split())
"""All methods that change a dict."""

CHANGE_DICTS_AND_SETS = CHANGE_DICTS | frozenset(
    "add difference_update discard intersection_update remove symmetric_difference_update".split()
)
"""All methods that change a dict or a set."""

CHANGE = CHANGE_LISTS | CHANGE_DICTS_AND_SETS
"""All methods that change a container."""

CHANGE_ARGUMENTS = frozenset("at copyto fill_diagonal place put putmask seed shuffle".split())
"""Functions of Python's library and of NumPy, by their last names, that change what they are given."""
