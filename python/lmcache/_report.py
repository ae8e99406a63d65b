"""Exceptions as text and as lines of the log. Nothing here raises."""

from __future__ import annotations

import importlib
import logging
import os
import traceback
from typing import List, Tuple

from lmcache import _bridge

_LOGGER_NAME = "lmcache.python"
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_IMPORT = os.path.abspath(importlib.__file__)


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


def reason_of(error: BaseException) -> str:
    """``str(error)`` as a sentence of its own: some exceptions have a text, as ``'limit'`` of a
    KeyError, that says nothing without their name."""
    text, kind = text_of(error), type(error).__name__
    return f"{kind}: {text}" if isinstance(error, (KeyError, StopIteration)) else text


def place_of(error: BaseException) -> str:
    """Where an author finds the cause: file and line of the last code that is not this package's
    or the import system's; "" when there is none."""
    try:
        if isinstance(error, SyntaxError) and error.filename:
            return f"{error.filename}:{error.lineno or 0}"
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not _is_ours(frame.filename)]
        return f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    except Exception:
        return ""


def _is_ours(filename: str) -> bool:
    path = os.path.abspath(filename)
    return filename.startswith("<frozen") or path.startswith(_PACKAGE) or path == _IMPORT


def headline(what: str, error: BaseException, advice: str = "") -> str:
    """One line: what failed, the exception, where, and what would be right."""
    text = " ".join(text_of(error).split())
    kind = type(error).__name__
    where = place_of(error)
    return (
        f"{what}: {kind}{': ' if text != kind else ''}{text if text != kind else ''}"
        f"{f' (at {where})' if where else ''}{f'; {advice}' if advice else ''}"
    )


def without_own_frames(error: BaseException) -> BaseException:
    """The traceback begins where the author's code does."""
    start = error.__traceback__
    while start is not None and _is_ours(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    return error.with_traceback(start) if start is not None else error


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
