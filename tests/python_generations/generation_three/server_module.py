"""Third generation: still a factory; the server's own modules are found by their class."""

from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
from lmcache.v1.multiprocess.modules.lookup import LookupModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler


class CountingLookup:
    module_order = 50

    def __init__(self, ctx):
        self._context = ctx.server_context
        self._inner = next(m for m in ctx.modules if isinstance(m, LookupModule))
        self.lookups = 0

    @property
    def context(self):
        return self._context

    @request_handler(HandlerType.BLOCKING)
    def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
        self.lookups += 1
        self._inner.lookup(key, tp_size)

    def report_status(self):
        return {"generation_three": {"lookups": self.lookups}}

    def close(self):
        pass


def build_server_modules(ctx):
    return CountingLookup(ctx)
