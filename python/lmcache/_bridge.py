"""The door to the server: the module ``_lmcache_host``, which exists inside lmcached only.

Everything in this package that needs a running server goes through ``host()``. Types, decorators
and configuration objects do not, so plugin code can be imported and tested by any interpreter.
"""

from __future__ import annotations

from typing import Any

try:
    import _lmcache_host as _host  # type: ignore[import-not-found]
except ImportError:
    _host = None

INSIDE: bool = _host is not None


class OutsideServerError(RuntimeError):
    """An operation that only a running server can do was asked for outside one."""

    def __init__(self, what: str = "this") -> None:
        super().__init__(
            f"{what} works only inside lmcached, in a module named with --server-module"
        )


class _StartError(Exception):
    """Stands in for ``_lmcache_host.StartError`` outside the server."""


StartError: Any = _host.StartError if _host is not None else _StartError


def host(what: str = "this") -> Any:
    """``_lmcache_host``; ``OutsideServerError`` naming ``what`` where there is no server."""
    if _host is None:
        raise OutsideServerError(what)
    return _host
