"""Fourth generation: classes with names, and dependencies by name."""

from __future__ import annotations

from lmcache.v1.multiprocess.engine_module import DiscoverableModule, ModuleBuildContext
from lmcache.v1.multiprocess.ext_server_module import server_module_handler
from lmcache.v1.multiprocess.modules.management import ManagementModule
from lmcache.v1.multiprocess.modules.lookup import LookupModule


class FirstModule(DiscoverableModule):
    module_name = "generation_four_first"
    module_dependencies = ["lookup"]

    def __init__(self, context, lookup):
        self._context = context
        self.lookup = lookup

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> FirstModule | None:
        return cls(build_ctx.engine_context, build_ctx.require("lookup", LookupModule))

    @property
    def context(self):
        return self._context

    def report_status(self):
        return {}

    def close(self):
        pass


class SecondModule(FirstModule):
    """Built after the server's management module, because it says so."""

    module_name = "generation_four_second"
    module_dependencies = ["generation_four_first", "management"]
    deferred = True

    @classmethod
    def create(cls, build_ctx):
        first = build_ctx.require("generation_four_first", FirstModule)
        module = cls(build_ctx.engine_context, first.lookup)
        module.management = build_ctx.require("management", ManagementModule)
        module.names = build_ctx.module_names
        return module

    @server_module_handler("generation_four.chunk_size")
    def chunk_size(self, payload: bytes) -> bytes:
        return str(self.management.get_chunk_size()).encode()

    def report_status(self):
        return {"generation_four": {"names": self.names}}
