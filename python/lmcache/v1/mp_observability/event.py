"""Events of the server: what happened, to which session, when."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Union

__all__ = ["Event", "EventType", "event_name"]

_NAMES = """
l1.read.reserved l1.read.finished l1.write.reserved l1.write.finished
l1.write_finished_and_read_reserved l1.keys.evicted l1.keys.accessed l1.eviction.loop_tick
l1.allocation.failed l1.read.failed
sm.read.prefetched_finished sm.write.reserved sm.write.finished sm.capacity.changed
l2.store.submitted l2.store.completed l2.prefetch.lookup.submitted l2.prefetch.load.submitted
l2.prefetch.load.completed l2.load_task.submitted l2.load_task.completed l2.prefetch.deadline
l2.prefetch.failed l2.keys.evicted l2.keys.stored l2.keys.accessed l2.keys.deleted
mp.request.start mp.request.end mp.store.submitted mp.store.start mp.store.end
mp.retrieve.submitted mp.retrieve.start mp.retrieve.end mp.lookup_prefetch.start
mp.lookup_prefetch.end mp.lookup mp.tokens mp.transfer.phase_samples mp.vllm.block_allocation
mp.vllm.end_session
timeout.raised trace.call
cb.lookup.start cb.lookup.end cb.retrieve.start cb.retrieve.end cb.fingerprint_match.start
cb.fingerprint_match.end cb.prefix_lookup.start cb.prefix_lookup.end cb.coordinator_match.start
cb.coordinator_match.end cb.sparse_prefetch.start cb.sparse_prefetch.end cb.scatter.start
cb.scatter.end cb.fingerprints.registered cb.chunks.evicted cb.retrieve.noop
cb.retrieve.submitted cb.request.start cb.request.end
""".split()

EventType = enum.Enum(  # type: ignore[misc]
    "EventType", {name.upper().replace(".", "_"): name for name in _NAMES}
)
EventType.__doc__ = "Events that the server publishes: ``MP_LOOKUP`` is \"mp.lookup\"."


@dataclass
class Event:
    """``event_type``: a member of ``EventType``, or a module's own name such as "mine.done".
    ``timestamp``, seconds since the epoch, is set when the event is published."""

    event_type: Union[EventType, str]  # type: ignore[valid-type]
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
