"""Addresses that peers read objects from."""

from __future__ import annotations

from typing import Any, Dict, Optional

from lmcache._messages import message

__all__ = ["TransferChannelAddress"]


@message
class TransferChannelAddress:
    """Where an object lies; it exists when ``offset`` >= 0 and ``size`` > 0."""

    offset: int
    size: int
    cxl_arena: Optional[Dict[str, Any]] = None
    cxl_ttl_seconds: Optional[int] = None
