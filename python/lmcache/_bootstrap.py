"""What the host inside lmcached calls; the contract is in ``_host.pyi``, part 2."""

from __future__ import annotations

import traceback
from typing import Any, Dict, List, Optional, Sequence, Tuple

from lmcache import _loader


def setup() -> None:
    return None


def load(builtin_names: Sequence[str], native_names: Sequence[str]) -> List[Dict[str, Any]]:
    return _loader.load(builtin_names, native_names)


def create(index: int) -> Optional[Dict[str, Any]]:
    return _loader.unit(index).create()


def register_zmq(index: int) -> None:
    return None


def register_grpc(index: int) -> None:
    return None


def report_status(index: int) -> str:
    return _loader.unit(index).report_status()


def close(index: int) -> None:
    _loader.unit(index).close()


def stop_subscribers() -> None:
    return None


def finish(budget_s: float) -> List[str]:
    return []


def describe_exception(error: BaseException) -> Tuple[str, List[str]]:
    """Any thread. The exception's text and its traceback; never raises."""
    try:
        text = str(error)
    except BaseException as failure:
        text = f"{type(error).__name__}, whose text cannot be had ({type(failure).__name__})"
    try:
        parts = traceback.format_exception(type(error), error, error.__traceback__)
        lines = "".join(parts).rstrip("\n").split("\n")
    except BaseException:
        lines = []
    return text, lines
