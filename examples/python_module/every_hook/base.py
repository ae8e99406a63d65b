"""What the modules of this package share."""

from __future__ import annotations

from typing import Any, Dict

from lmcache.v1.multiprocess.engine_context import MPCacheServerContext
from lmcache.v1.multiprocess.engine_module import DiscoverableModule, ModuleBuildContext


class Base(DiscoverableModule):
    """Has no ``create``, so it is abstract and the server does not build it."""

    def __init__(self, build_ctx: ModuleBuildContext) -> None:
        self._context = build_ctx.engine_context
        # One object for all classes of a module_path: what the operator gave as "config".
        self.config: Dict[str, Any] = build_ctx.config_for(type(self))

    @property
    def context(self) -> MPCacheServerContext:
        return self._context

    def report_status(self) -> Dict[str, Any]:
        return {}

    def close(self) -> None:
        """Called once, after the last request; modules that depend on this one are closed."""
