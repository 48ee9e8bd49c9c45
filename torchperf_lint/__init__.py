"""torchperf-lint: find, fix and prove away PyTorch performance anti-patterns.

As a library: `from torchperf_lint import lint, fix`; `docs/library.md` has examples.
"""

__version__ = "0.1.0"
__all__ = [
    "Edit",
    "Evidence",
    "Finding",
    "Findings",
    "Fix",
    "Fixed",
    "Position",
    "Problem",
    "__version__",
    "fix",
    "lint",
]

TYPE_CHECKING = False  # type checkers know the name; see __main__
if TYPE_CHECKING:
    from torchperf_lint.api import Edit, Evidence, Finding, Findings, Fix, Fixed, Position, Problem, fix, lint

if not TYPE_CHECKING:  # with it, a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Load the library on the first use of one of its names: importing this package costs nothing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from torchperf_lint import api

        return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
