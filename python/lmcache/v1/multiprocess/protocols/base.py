"""Older home of ``HandlerType`` and ``RequestType``."""

from lmcache.v1.multiprocess.protocol import RequestType
from lmcache.v1.multiprocess.request_handler import HandlerType

__all__ = ["HandlerType", "RequestType"]
