"""Exceptions as text and as lines of the log. Nothing here raises."""

from __future__ import annotations

import logging
import traceback
from typing import List, Tuple

from lmcache import _bridge

_LOGGER_NAME = "lmcache.python"


def text_of(error: BaseException) -> str:
    """``str(error)``, or what it is when it has no text."""
    return describe(error)[0] or type(error).__name__


def describe(error: BaseException) -> Tuple[str, List[str]]:
    """``str(error)`` and the lines of its traceback."""
    try:
        text = str(error)
    except BaseException as failure:
        text = f"{type(error).__name__}, whose text cannot be had ({type(failure).__name__})"
    try:
        parts = traceback.format_exception(type(error), error, error.__traceback__)
        lines = "".join(parts).rstrip("\n").split("\n")
    except BaseException:
        lines = [text]
    return text, lines


def log_lines(level: int, lines: List[str], origin: str = "python") -> None:
    for line in lines:
        _bridge.host().log(level, _LOGGER_NAME, origin, 0, line)


def log_exception(error: BaseException, headline: str = "") -> None:
    """ERROR lines: a headline, if there is one, and the traceback."""
    try:
        lines = describe(error)[1]
        log_lines(logging.ERROR, [headline, *lines] if headline else lines)
    except Exception:
        pass
