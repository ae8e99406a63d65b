"""Fifth generation: dependencies are classes, the configuration comes from ``config_for``."""

from lmcache.v1.multiprocess.engine_module import DiscoverableModule, ModuleBuildContext
from lmcache.v1.multiprocess.ext_server_module import server_module_handler
from lmcache.v1.multiprocess.modules.lookup import LookupModule


class Prefix(DiscoverableModule):
    module_dependencies = [LookupModule]

    def __init__(self, context, prefix):
        self._context = context
        self.prefix = prefix

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext):
        config = build_ctx.config_for(cls)
        return cls(build_ctx.engine_context, config["prefix"].encode()) if config else None

    @property
    def context(self):
        return self._context

    def report_status(self):
        return {"generation_five": {"is_healthy": True, "prefix": self.prefix.decode()}}

    def close(self):
        pass


class Echo(Prefix):
    module_dependencies = (Prefix,)

    @classmethod
    def create(cls, build_ctx):
        if not build_ctx.config_for(cls):
            return None
        return cls(build_ctx.engine_context, build_ctx.require(Prefix).prefix)

    @server_module_handler("generation_five.echo")
    def echo(self, payload: bytes) -> bytes:
        return self.prefix + payload

    def report_status(self):
        return {}
