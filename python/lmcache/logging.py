"""Loggers whose lines appear in the server's log, in its format."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from lmcache import _bridge
from lmcache._installed import names_of

__all__ = ["init_logger"]

_FORMAT = "[%(asctime)s] LMCache %(levelname)s: %(message)s (%(filename)s:%(lineno)d:%(name)s)"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class ServerHandler(logging.Handler):
    """Hands records to the server's log, which never waits."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            _bridge.host().log(record.levelno, record.name, record.filename, record.lineno, text)
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """A line that cannot be formatted is shown as it was given."""
        try:
            text = f"{record.msg!r} with {record.args!r} cannot be formatted"
            _bridge.host().log(
                logging.ERROR, record.name, record.filename, record.lineno, text
            )
        except Exception:
            pass


class ServerLogger(logging.Logger):
    """Follows the level that the server has for it now, unless it was given one itself."""

    def getEffectiveLevel(self) -> int:
        return self.level or _bridge.host().log_level(self.name)

    def isEnabledFor(self, level: int) -> bool:
        return not self.disabled and level >= self.getEffectiveLevel()


def init_logger(name: str) -> logging.Logger:
    """The logger of that name: in the server's log inside it, on stderr elsewhere."""
    logger = logging.getLogger(name)
    if any(getattr(handler, "lmcache", False) for handler in logger.handlers):
        return logger
    if _bridge.INSIDE:
        handler: logging.Handler = ServerHandler()
        if type(logger) is logging.Logger:
            logger.__class__ = ServerLogger
    else:
        handler = _StderrHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        level = os.environ.get("LMCACHE_LOG_LEVEL", "INFO").upper()
        logger.setLevel(level if level in _LEVELS else "INFO")
    handler.lmcache = True  # type: ignore[attr-defined]
    logger.addHandler(handler)
    logger.propagate = False
    return logger


class _StderrHandler(logging.StreamHandler):
    """Writes to whatever ``sys.stderr`` is now."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        raise AttributeError("the stream is sys.stderr")


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
