"""A method for clients, with typed messages."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgpack

from every_hook.base import Base
from lmcache.logging import init_logger
from lmcache.v1.multiprocess.engine_module import ModuleBuildContext
from lmcache.v1.multiprocess.ext_server_module import server_module_handler

logger = init_logger(__name__)


@dataclass
class EchoRequest:
    text: str
    times: int = 1


@dataclass
class EchoResponse:
    text: str


class EchoModule(Base):
    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> EchoModule:
        return cls(build_ctx)

    # Runs on a thread pool, so several calls at a time. An exception is the answer's `error`.
    @server_module_handler("every_hook.echo")
    def echo(self, payload: bytes) -> bytes:
        request = EchoRequest(**msgpack.unpackb(payload))
        if not 1 <= request.times <= 100:
            raise ValueError(f"times is {request.times}, not 1 to 100")
        logger.debug("echo of %r", request.text)
        return msgpack.packb(asdict(EchoResponse(request.text * request.times)))
