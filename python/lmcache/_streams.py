"""``sys.stdout`` and ``sys.stderr`` of Python inside the server: whole lines to the log."""

from __future__ import annotations

import io
import threading
from typing import Any, Optional

from lmcache import _bridge

MAX_LINE = 64 * 1024


class LogStream(io.TextIOBase):
    """Any thread may write; a line without an end is given out in pieces of MAX_LINE."""

    def __init__(self, level: int, name: str, descriptor: int) -> None:
        self._level = level
        self._name = name
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._rest = ""
        self._bytes = _Bytes(self)

    @property
    def name(self) -> str:
        return self._name

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> Optional[str]:  # type: ignore[override]
        return "replace"

    @property
    def buffer(self) -> Any:
        return self._bytes

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            if "\n" not in text and "\r" not in text and len(self._rest) + len(text) < MAX_LINE:
                self._rest += text
                return len(text)
            lines = (self._rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
            self._rest = lines.pop()
            while len(self._rest) >= MAX_LINE:
                lines.append(self._rest[:MAX_LINE])
                self._rest = self._rest[MAX_LINE:]
        for line in lines:
            self._say(line)
        return len(text)

    def flush(self) -> None:
        """A line is given out when it ends, not before."""

    def give_rest(self) -> None:
        """The last line, which has no end."""
        with self._lock:
            rest, self._rest = self._rest, ""
        if rest:
            self._say(rest)

    def close(self) -> None:
        """Stays open: others write here."""

    def _say(self, line: str) -> None:
        for start in range(0, max(1, len(line)), MAX_LINE):
            piece = line[start : start + MAX_LINE]
            _bridge.host().log(self._level, "lmcache.python", self._name, 0, piece)


class _Bytes(io.RawIOBase):
    """``sys.stdout.buffer``."""

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, data: Any) -> int:
        view = bytes(data)
        self._stream.write(view.decode("utf-8", "replace"))
        return len(view)

    def close(self) -> None:
        """Stays open: others write here."""
