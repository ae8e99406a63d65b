"""Events of the server: what happened, to which session, when."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from lmcache._installed import names_of

__all__ = ["Event", "EventType", "event_name"]


class EventType(enum.Enum):
    """Events that the server publishes."""

    L1_READ_RESERVED = "l1.read.reserved"
    L1_READ_FINISHED = "l1.read.finished"
    L1_WRITE_RESERVED = "l1.write.reserved"
    L1_WRITE_FINISHED = "l1.write.finished"
    L1_WRITE_FINISHED_AND_READ_RESERVED = "l1.write_finished_and_read_reserved"
    L1_KEYS_EVICTED = "l1.keys.evicted"
    L1_KEYS_ACCESSED = "l1.keys.accessed"
    L1_EVICTION_LOOP_TICK = "l1.eviction.loop_tick"
    L1_ALLOCATION_FAILED = "l1.allocation.failed"
    L1_READ_FAILED = "l1.read.failed"

    SM_READ_PREFETCHED_FINISHED = "sm.read.prefetched_finished"
    SM_WRITE_RESERVED = "sm.write.reserved"
    SM_WRITE_FINISHED = "sm.write.finished"
    SM_CAPACITY_CHANGED = "sm.capacity.changed"

    L2_STORE_SUBMITTED = "l2.store.submitted"
    L2_STORE_COMPLETED = "l2.store.completed"
    L2_PREFETCH_LOOKUP_SUBMITTED = "l2.prefetch.lookup.submitted"
    L2_PREFETCH_LOAD_SUBMITTED = "l2.prefetch.load.submitted"
    L2_PREFETCH_LOAD_COMPLETED = "l2.prefetch.load.completed"
    L2_LOAD_TASK_SUBMITTED = "l2.load_task.submitted"
    L2_LOAD_TASK_COMPLETED = "l2.load_task.completed"
    L2_PREFETCH_DEADLINE = "l2.prefetch.deadline"
    L2_PREFETCH_FAILED = "l2.prefetch.failed"
    L2_KEYS_EVICTED = "l2.keys.evicted"
    L2_KEYS_STORED = "l2.keys.stored"
    L2_KEYS_ACCESSED = "l2.keys.accessed"
    L2_KEYS_DELETED = "l2.keys.deleted"

    MP_REQUEST_START = "mp.request.start"
    MP_REQUEST_END = "mp.request.end"
    MP_STORE_SUBMITTED = "mp.store.submitted"
    MP_STORE_START = "mp.store.start"
    MP_STORE_END = "mp.store.end"
    MP_RETRIEVE_SUBMITTED = "mp.retrieve.submitted"
    MP_RETRIEVE_START = "mp.retrieve.start"
    MP_RETRIEVE_END = "mp.retrieve.end"
    MP_LOOKUP_PREFETCH_START = "mp.lookup_prefetch.start"
    MP_LOOKUP_PREFETCH_END = "mp.lookup_prefetch.end"
    MP_LOOKUP = "mp.lookup"
    MP_TOKENS = "mp.tokens"
    MP_TRANSFER_PHASE_SAMPLES = "mp.transfer.phase_samples"
    MP_VLLM_BLOCK_ALLOCATION = "mp.vllm.block_allocation"
    MP_VLLM_END_SESSION = "mp.vllm.end_session"

    TIMEOUT_RAISED = "timeout.raised"
    TRACE_CALL = "trace.call"

    CB_LOOKUP_START = "cb.lookup.start"
    CB_LOOKUP_END = "cb.lookup.end"
    CB_RETRIEVE_START = "cb.retrieve.start"
    CB_RETRIEVE_END = "cb.retrieve.end"
    CB_FINGERPRINT_MATCH_START = "cb.fingerprint_match.start"
    CB_FINGERPRINT_MATCH_END = "cb.fingerprint_match.end"
    CB_PREFIX_LOOKUP_START = "cb.prefix_lookup.start"
    CB_PREFIX_LOOKUP_END = "cb.prefix_lookup.end"
    CB_COORDINATOR_MATCH_START = "cb.coordinator_match.start"
    CB_COORDINATOR_MATCH_END = "cb.coordinator_match.end"
    CB_SPARSE_PREFETCH_START = "cb.sparse_prefetch.start"
    CB_SPARSE_PREFETCH_END = "cb.sparse_prefetch.end"
    CB_SCATTER_START = "cb.scatter.start"
    CB_SCATTER_END = "cb.scatter.end"
    CB_FINGERPRINTS_REGISTERED = "cb.fingerprints.registered"
    CB_CHUNKS_EVICTED = "cb.chunks.evicted"
    CB_RETRIEVE_NOOP = "cb.retrieve.noop"
    CB_RETRIEVE_SUBMITTED = "cb.retrieve.submitted"
    CB_REQUEST_START = "cb.request.start"
    CB_REQUEST_END = "cb.request.end"


@dataclass
class Event:
    """``event_type``: a member of ``EventType``, or a module's own name such as "mine.done".
    ``timestamp``, seconds since the epoch, is set when the event is published."""

    event_type: Union[EventType, str]
    session_id: str = ""
    metadata: Dict[str, Any] = field(default_factory=dict)
    timestamp: Optional[float] = None


def event_name(event_type: Any) -> str:
    """The name that stands for an event type: its value, or the text itself."""
    return str(getattr(event_type, "value", event_type))


def event_type_of(name: str) -> Any:
    """The member for a name, or the name where it is a module's own."""
    try:
        return EventType(name)
    except ValueError:
        return name


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
