"""A protocol of its own, on a socket beside the server's."""

from __future__ import annotations

import threading
from typing import Any, Optional

from every_hook.base import Base
from lmcache.logging import init_logger
from lmcache.v1.multiprocess.engine_module import ModuleBuildContext

logger = init_logger(__name__)


class SidecarModule(Base):
    def __init__(self, build_ctx: ModuleBuildContext) -> None:
        super().__init__(build_ctx)
        self._stopping = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.url = ""

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> Optional[SidecarModule]:
        # None: the module is not applicable, and the server goes on without it.
        return cls(build_ctx) if build_ctx.config_for(cls).get("sidecar_url") else None

    # Called once, before the first request, when the server's transport is ZMQ.
    def register_zmq_services(self, server: Any) -> None:
        import zmq

        self._socket = server.ctx.socket(zmq.REP)
        self._socket.bind(self.config["sidecar_url"])
        self.url = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = threading.Thread(target=self._run, name="every-hook-sidecar")
        self._thread.start()
        logger.info("the sidecar listens on %s", self.url)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._socket.poll(50):
                self._socket.send(b"sidecar:" + self._socket.recv())

    def report_status(self) -> dict:
        alive = self._thread is not None and self._thread.is_alive()
        return {"every_hook_sidecar": {"is_healthy": alive, "url": self.url}}

    def close(self) -> None:
        # The context is the server's; the socket and the thread are ours to end.
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._socket.close(linger=0)
