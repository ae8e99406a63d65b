"""What a request has shown of its tokens so far."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Sequence

from lmcache._bridge import host

__all__ = ["Session", "SessionManager"]

MAX_SESSIONS = 10_000


class Session:
    """The rolling hashes of one request.

    ``lookup_ipc_key`` is the key of the last lookup that a module in Python has passed on for a
    session that was there. Without ``set_tokens`` it answers with what the server knows of the request from its own
    calls. One thread at a time.
    """

    def __init__(self, request_id: str, chunk_size: int) -> None:
        self.request_id = request_id
        self.created_at = time.time()
        self.lookup_ipc_key: Any = None
        self.token_ids: List[int] = []
        self._chunk_size = chunk_size
        self._hashes: List[bytes] = []

    def set_tokens(self, tokens: Sequence[int]) -> None:
        """Replaces the tokens. Hashes that are computed stay: requests only grow."""
        self.token_ids = list(tokens)

    def get_hashes(self, start: int = 0, end: Optional[int] = None) -> List[bytes]:
        """Hashes of the chunks in ``[start, end)``; both are multiples of the chunk size."""
        size = self._chunk_size
        if start % size:
            raise ValueError(f"get_hashes start ({start}) is not a multiple of {size}")
        if end is not None and end % size:
            raise ValueError(f"get_hashes end ({end}) is not a multiple of {size}")
        hashes, known = self._known(end)
        if end is not None and end > known:
            raise ValueError(
                f"get_hashes end ({end}) exceeds the session's {known} token(s); "
                "the session may have been recreated after request cleanup"
            )
        last = known // size if end is None else end // size
        return hashes[start // size : last]

    def _known(self, end: Optional[int]) -> Any:
        """(hashes, number of tokens); hashes reach as far as ``end``."""
        size = self._chunk_size
        if not self.token_ids:
            hashes = list(host("sessions").session_hashes(self.request_id))
            return hashes, len(hashes) * size
        wanted = (len(self.token_ids) if end is None else min(end, len(self.token_ids))) // size
        done = len(self._hashes)
        if done < wanted:
            new = self.token_ids[done * size : wanted * size]
            previous = self._hashes[-1] if done else None
            self._hashes.extend(host("hashing tokens").hash_chunks(new, previous))
        return self._hashes, len(self.token_ids)


class SessionManager:
    """Sessions by request id. Any thread."""

    def __init__(self, chunk_size: int, ttl_seconds: float = 600.0) -> None:
        self._chunk_size = chunk_size
        self._ttl = ttl_seconds
        self._lock = threading.Lock()
        self._sessions: "OrderedDict[str, Session]" = OrderedDict()  # least recently used first
        self._used: Dict[str, float] = {}

    def get_or_create(self, request_id: str) -> Session:
        now = time.monotonic()
        with self._lock:
            session = self._sessions.get(request_id)
            if session is None:
                session = self._sessions[request_id] = Session(request_id, self._chunk_size)
            self._sessions.move_to_end(request_id)
            self._used[request_id] = now
            self._drop_old(now)
        return session

    def get(self, request_id: str) -> Optional[Session]:
        with self._lock:
            return self._sessions.get(request_id)

    def remove(self, request_id: str) -> Optional[Session]:
        """Ends the request's session here and in the server."""
        with self._lock:
            session = self._sessions.pop(request_id, None)
            self._used.pop(request_id, None)
        host("sessions").end_session(request_id)
        return session

    def active_count(self) -> int:
        """The server's sessions."""
        return host("sessions").session_count()

    def _drop_old(self, now: float) -> None:
        while self._sessions:
            oldest = next(iter(self._sessions))
            fresh = now - self._used[oldest] <= self._ttl
            if fresh and len(self._sessions) <= MAX_SESSIONS:
                return
            del self._sessions[oldest], self._used[oldest]
