"""First generation: a factory returns components."""

from lmcache.logging import init_logger
from lmcache.v1.multiprocess.server_module import (
    ServerModuleBuildContext,
    ServerModuleComponents,
    server_module_handler,
)

logger = init_logger(__name__)


class Greeter:
    def __init__(self, ctx: ServerModuleBuildContext):
        self._context = ctx.server_context
        self._greeting = ctx.config.get("greeting", "hello")
        self.transports = []

    @property
    def context(self):
        return self._context

    @server_module_handler("generation_one.greet")
    def greet(self, payload: bytes) -> bytes:
        return f"{self._greeting} {payload.decode()}".encode()

    def report_status(self):
        return {
            "generation_one": {
                "chunk_size": self._context.chunk_size,
                "transports": self.transports,
            }
        }

    def close(self):
        logger.info("generation one closes")


def build_server_modules(ctx: ServerModuleBuildContext) -> ServerModuleComponents:
    greeter = Greeter(ctx)

    def register(server):
        greeter.transports.append(type(server).__name__)

    return ServerModuleComponents(
        modules=[greeter], grpc_service_registrars=[], zmq_service_registrars=[register]
    )
