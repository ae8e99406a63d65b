"""Keeps a registration alive: pings, and registers again after an outage or a restart."""

from __future__ import annotations

import logging
import threading
from typing import Callable, Optional

from . import checks
from .client import Client
from .errors import ClientClosed, LMCacheError, RequestTimeout

log = logging.getLogger("lmcached")


class Heartbeat:
    """Pings every ``interval`` seconds on a thread of its own.

    The server counts as away when a ping stays unanswered for ``timeout`` seconds, and as
    forgetful when it answers False (it restarted between two pings and does not know the
    instance). In both cases ``register`` is called once it answers again, until it succeeds;
    ``healthy`` is False meanwhile. Without an instance id (a scheduler) nothing is registered.
    """

    def __init__(
        self,
        client: Client,
        instance_id: Optional[int] = None,
        register: Optional[Callable[[], object]] = None,
        *,
        interval: float = 10.0,
        timeout: float = 10.0,
    ) -> None:
        if register is not None and not callable(register):
            raise TypeError(f"register must be callable, which a {type(register).__name__} is not")
        self.client = client
        self.instance_id = checks.optional_integer("instance_id", instance_id)
        self.interval = checks.seconds("interval", interval)
        self.timeout = checks.seconds("timeout", timeout)
        self.registrations = 0  # how often it had to register again
        self._register = register
        self._healthy = threading.Event()
        self._healthy.set()
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    @property
    def healthy(self) -> bool:
        return self._healthy.is_set()

    def wait_healthy(self, timeout: Optional[float] = None) -> bool:
        return self._healthy.wait(timeout)

    def start(self) -> "Heartbeat":
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lmcached-heartbeat", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> "Heartbeat":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def beat(self) -> bool:
        """One ping with its consequences; True when all is well afterwards."""
        try:
            known = self.client.ping(self.instance_id, timeout=self.timeout).result(self.timeout + 1.0)
        except (RequestTimeout, ClientClosed):
            if self._healthy.is_set():
                log.warning("no answer to a ping from %s", self.client.url)
            self._healthy.clear()
            return False
        if known and self._healthy.is_set():
            return True
        if not known:
            log.info("%s does not know instance %s", self.client.url, self.instance_id)
        self._healthy.clear()
        return self._register_again()

    def _register_again(self) -> bool:
        if self._register is not None:
            try:
                self._register()
            except Exception as error:  # whatever it is, the pings must go on
                known = isinstance(error, LMCacheError)
                log.warning("registration at %s failed: %s", self.client.url, error, exc_info=not known)
                return False
            self.registrations += 1
        self._healthy.set()
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            fine = self.beat()
            self._stop.wait(self.interval if fine else min(self.interval, 1.0))
