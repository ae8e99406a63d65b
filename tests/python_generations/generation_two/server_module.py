"""Second generation: a factory with a name of its own returns a list."""

from lmcache.v1.multiprocess.ext_server_module import (
    ExtServerModuleBuildContext,
    server_module_handler,
)


class Counter:
    def __init__(self, context, name):
        self.context = context
        self.name = name
        self.calls = 0

    def report_status(self):
        return {f"generation_two_{self.name}": {"calls": self.calls}}

    def close(self):
        pass


class Upper(Counter):
    @server_module_handler("generation_two.upper")
    def upper(self, payload: bytes) -> bytes:
        self.calls += 1
        return payload.upper()


class Lower(Counter):
    @server_module_handler("generation_two.lower")
    def lower(self, payload: bytes) -> bytes:
        self.calls += 1
        return payload.lower()


def make_modules(ctx: ExtServerModuleBuildContext):
    return [Upper(ctx.server_context, "upper"), Lower(ctx.server_context, "lower")]
