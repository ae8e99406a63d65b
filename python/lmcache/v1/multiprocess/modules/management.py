"""Housekeeping operations; pings reach liveness targets from here."""

from __future__ import annotations

from typing import List, Optional

from lmcache.v1.multiprocess.custom_types import BlockAllocationRecord
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["ManagementModule"]


class ManagementModule(BuiltinModule):
    """Built after every module that does not depend on it."""

    stem = "management"
    deferred = True

    @request_handler(HandlerType.BLOCKING)
    def clear(self, force: bool = True) -> None:
        self._call("clear", force)

    @request_handler(HandlerType.SYNC)
    def get_chunk_size(self) -> int:
        return self._call("get_chunk_size")

    @request_handler(HandlerType.BLOCKING)
    def ping(self, instance_id: Optional[int]) -> bool:
        return self._call("ping", instance_id)

    @request_handler(HandlerType.SYNC)
    def noop(self) -> str:
        return self._call("noop")

    @request_handler(HandlerType.SYNC)
    def get_experimental(self) -> List[str]:
        return self._call("get_experimental")

    @request_handler(HandlerType.BLOCKING)
    def report_block_allocation(
        self, instance_id: int, model_name: str, records: List[BlockAllocationRecord]
    ) -> None:
        self._call("report_block_allocation", instance_id, model_name, records)
