"""The event bus: what the server publishes, with keys, to native and to Python subscribers alike."""

import os
import re

import pytest

from house import chunk_payload, end, lookup_key, poll_until
from modules import SOURCES, build, flags, spec
from python_packages import Packages, needs_host

TOKENS = list(range(100, 108))
EVENTS = (
    "mp.request.start mp.request.end mp.vllm.end_session mp.vllm.block_allocation mp.lookup mp.tokens "
    "mp.lookup_prefetch.start mp.lookup_prefetch.end mp.store.submitted mp.store.start mp.store.end "
    "mp.retrieve.submitted mp.retrieve.start mp.retrieve.end l1.read.reserved l1.read.finished l1.write.reserved "
    "l1.write.finished l1.keys.evicted l1.keys.accessed l1.read.failed l1.allocation.failed sm.write.reserved "
    "sm.write.finished sm.read.prefetched_finished sm.capacity.changed"
).split()
MEMBERS = (
    "count model_name cache_salt medium l1_tag tier capacity_bytes reason keys sizes chunk_size seq_len chunk_hashes "
    "token_chunks requested_tokens hit_tokens l1_hit_tokens l2_hit_tokens found_count l1_hit_keys l2_hit_keys "
    "early_exit_reason device engine_id worker_id success stored_count retrieved_count total_bytes instance_id "
    "record_count req_ids new_block_ids"
).split()


class Followed:
    """What the listener module wrote: (name, session, {member: text}), oldest first."""

    def __init__(self, path):
        self.path = path

    def all(self):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        rows = [line.split("\t") for line in lines]
        return [(r[0], r[1], dict(m.split("=", 1) for m in r[2:])) for r in rows]

    def of(self, name):
        return [(session, members) for event, session, members in self.all() if event == name]

    def wait(self, name, count=1):
        poll_until(lambda: len(self.of(name)) >= count, name)
        return self.of(name)


def listener(path, events=EVENTS):
    source = build(SOURCES / "listener.c")
    return spec(source, events=",".join(events), members=",".join(MEMBERS), trace=str(path))


def flow(one):
    """A store, a lookup, a retrieve, a miss, an end, a clear."""
    worker = one.worker()
    chunks = [chunk_payload(n, worker.chunk_bytes) for n in range(2)]
    assert worker.store(worker.key(TOKENS, "stores", cache_salt="s"), chunks)
    client = worker.client
    client.lookup(lookup_key(TOKENS, "asks", salt="s")).result(30)
    assert client.query_prefetch_status("asks").result(30) == 2
    assert worker.retrieve(worker.key(TOKENS, "asks", cache_salt="s")) == chunks
    assert worker.retrieve(worker.key([7] * 4, "misses", cache_salt="s")) is None
    end(client, "asks", "stores", "misses")
    one.request("POST", "/cache/clear")
    return worker


@pytest.fixture
def followed(tmp_path):
    return Followed(tmp_path / "events")


def keys_of(members):
    return [key.split(":") for key in members["keys"].strip("[]").split(",")]


@pytest.mark.parametrize("shm", [True, False])
def test_every_event_of_the_operations_that_exist_is_published_with_its_members(server, raw, followed, shm):
    one = server(*flags(listener(followed.path)), shm=shm)
    one.allow("not found, skipping touch")  # "stores" never looked up
    worker = flow(one)
    assert raw(one).call(
        "report_block_allocation", 5, "m", [{"req_id": "r", "new_block_ids": [1, 2], "new_token_ids": [3]}]
    ) == "void"  # fmt: skip
    followed.wait("l1.keys.evicted")
    followed.wait("mp.vllm.block_allocation")
    missing = set(EVENTS) - {name for name, _, _ in followed.all()}
    assert missing == {"l1.allocation.failed"}

    assert followed.of("sm.capacity.changed")[0][1] == {
        "tier": "l1", "medium": "dram", "l1_tag": "_default", "capacity_bytes": str(64 << 20)
    }  # fmt: skip
    # one request, by its session
    assert [session for session, _ in followed.of("mp.request.start")] == ["asks"]
    assert [session for session, _ in followed.of("mp.request.end")] == ["asks", "stores", "misses"]
    assert [session for session, _ in followed.of("mp.vllm.end_session")] == ["asks", "stores", "misses"]
    [(session, looked)] = followed.of("mp.lookup_prefetch.end")
    assert session == "asks" and looked == {
        "model_name": "m", "cache_salt": "s", "requested_tokens": "8", "hit_tokens": "8", "l1_hit_tokens": "8",
        "l2_hit_tokens": "0", "found_count": "2", "l1_hit_keys": "2", "l2_hit_keys": "0", "early_exit_reason": "",
    }  # fmt: skip
    [(session, lookup)] = followed.of("mp.lookup")
    hashes = lookup["chunk_hashes"].strip("[]").split(",")
    assert (session, lookup["chunk_size"], lookup["seq_len"], len(hashes)) == ("asks", "4", "8", 2)
    [(session, tokens)] = followed.of("mp.tokens")
    assert session == "stores" and tokens["chunk_hashes"].strip("[]").split(",") == hashes
    assert tokens["token_chunks"] == "[[100,101,102,103][104,105,106,107]]"

    # transfers
    common = {"model_name": "m", "cache_salt": "s", "device": "cpu", "engine_id": str(worker.instance_id), "worker_id": "0"}
    for name in ("mp.store.submitted", "mp.store.start"):
        assert followed.of(name) == [("stores", common)]
    size = worker.chunk_bytes
    assert followed.of("mp.store.end") == [
        ("stores", {**common, "success": "1", "stored_count": "2", "total_bytes": str(2 * size)})
    ]
    for name in ("mp.retrieve.submitted", "mp.retrieve.start"):
        assert followed.of(name) == [("asks", common), ("misses", common)]
    assert followed.of("mp.retrieve.end") == [
        ("asks", {**common, "retrieved_count": "2", "total_bytes": str(2 * size)}),
        ("misses", {**common, "retrieved_count": "0", "total_bytes": "0"}),
    ]

    # single objects
    keys = {(digest, "m", "1000100", "0", "s") for digest in hashes}
    for name in (
        "l1.write.reserved", "l1.write.finished", "sm.write.reserved", "sm.write.finished", "l1.read.reserved",
        "l1.read.finished", "sm.read.prefetched_finished", "l1.keys.accessed", "l1.keys.evicted",
    ):  # fmt: skip
        seen = followed.of(name)
        assert {tuple(key) for _, members in seen for key in keys_of(members)} == keys, name
        for _, members in seen:
            assert members["count"] == str(len(keys_of(members)))
            assert members["sizes"] == "[" + ",".join([str(size)] * int(members["count"])) + "]"
            assert (members["medium"], members["l1_tag"]) == ("dram", "_default")
    [(_, failed)] = followed.of("l1.read.failed")
    assert failed["reason"] == "not_found" and failed["count"] == "1" and keys_of(failed)[0][0] not in hashes
    [(_, blocks)] = followed.of("mp.vllm.block_allocation")
    assert blocks["instance_id"] == "5" and blocks["record_count"] == "1" and blocks["new_block_ids"] == "[[1,2]]"
    assert bytes.fromhex(blocks["req_ids"].strip("[]")) == b"r"


def test_what_found_no_memory_is_named_key_by_key(server, followed):
    one = server(
        "--l1-size-gb", "0.0009765625", "--eviction-policy", "noop",
        *flags(listener(followed.path, ["l1.allocation.failed"])),
    )  # fmt: skip
    one.allow("No more memory for L1", "alloc", "more than")
    worker = one.worker(num_layers=16, hidden_dim_size=1024)  # 256 KiB a chunk, 1 MiB of L1
    tokens = list(range(8 * 4))
    worker.store(worker.key(tokens, "s"), [bytes(worker.chunk_bytes)] * 8)
    seen = followed.wait("l1.allocation.failed")
    total = sum(int(members["count"]) for _, members in seen)
    assert total >= 4 and sum(len(keys_of(members)) for _, members in seen) == total
    end(worker.client, "s")
    worker.unregister()


@needs_host
def test_python_and_native_subscribers_see_the_same(server, tmp_path, followed):
    packages = Packages(tmp_path / "packages")
    packages.one_class(
        """
        def __init__(self, build_ctx):
            super().__init__(build_ctx)
            for name in build_ctx.config_for(type(self))["events"]:
                self.context.event_bus.subscribe(name, self.on)
        def on(self, event):
            def show(value):
                if isinstance(value, ObjectKey):
                    return f"{value.chunk_hash.hex()}:{value.model_name}:{value.kv_rank:x}:{value.object_group_id}:{value.cache_salt}"
                if isinstance(value, bytes):
                    return value.hex()
                if isinstance(value, list) and value and isinstance(value[0], list):
                    return "[" + "".join(map(show, value)) + "]"
                if isinstance(value, list):
                    return "[" + ",".join(map(show, value)) + "]"
                return str(value)
            members = [f"{name}={show(event.metadata[name])}" for name in MEMBERS if name in event.metadata]
            name = getattr(event.event_type, "value", event.event_type)
            trace("saw", "\\t".join([name, event.session_id, *members]))
        """,
        more=f"from lmcache.v1.distributed.api import ObjectKey\nMEMBERS = {MEMBERS!r}\n",
    )
    events = [name for name in EVENTS if name != "mp.vllm.block_allocation"]
    one = server(
        *flags(listener(followed.path, events), spec("probe", events=events)), environment=packages.environment()
    )
    one.allow("not found, skipping touch")
    flow(one)
    followed.wait("l1.keys.evicted")
    native = followed.path.read_text().splitlines()
    poll_until(lambda: len(packages.of("saw")) >= len(native), "the same number of events")
    assert packages.of("saw") == native


def test_a_subscriber_that_is_slow_loses_the_newest_which_are_counted(server, raw, followed):
    """The queue is bounded, producers do not wait, and what was lost is told."""
    one = server("--event-bus-queue-size", "4", *flags(listener(followed.path, ["mp.request.end"])))
    one.allow("not found, skipping touch", "event dropped: ")
    # a FIFO in the place of the file: the listener's fopen() waits for a reader
    os.mkfifo(followed.path)
    client = raw(one)
    for n in range(20):
        assert client.call("end_session", f"r{n}") == "void"
    reader = os.open(followed.path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll_until(
            lambda: re.search(r"^lmcache_mp_event_bus_queue_depth 0$", one.get("/metrics").text, re.M), "an empty queue"
        )
        dropped = re.search(r"^lmcache_mp_event_bus_dropped_events_total (\d+)$", one.get("/metrics").text, re.M)
        assert int(dropped.group(1)) >= 14
    finally:
        os.close(reader)
