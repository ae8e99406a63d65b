"""What a lookup finds, what it holds, and who gives it back."""

import time

import pytest
from house import chunk_payload, end, lookup_key, poll_until

TOKENS = list(range(1000, 1040))  # ten chunks of four


def fill(worker, tokens=TOKENS, chunks=None, request_id="fill"):
    full = len(tokens) // worker.chunk_size
    wanted = range(full) if chunks is None else chunks
    for index in wanted:
        key = worker.key(tokens, request_id, start=index * worker.chunk_size, end=(index + 1) * worker.chunk_size)
        assert worker.store(key, [chunk_payload(index, worker.chunk_bytes)])
    worker.client.end_session(request_id).result(10)


@pytest.fixture
def filled(server):
    one = server(shm=True)
    worker = one.worker()
    fill(worker)
    yield one, worker, worker.client
    worker.unregister()


def test_a_shared_prefix_hits_as_far_as_it_goes(filled):
    one, worker, client = filled
    prompts = {
        "same": (TOKENS, 10),
        "longer": (TOKENS + [7] * 8, 10),
        "branches in chunk 3": (TOKENS[:14] + [0] * 26, 3),
        "branches in chunk 0": ([0] + TOKENS[1:], 0),
        "shorter than a chunk": (TOKENS[:3], 0),
        "partial last chunk": (TOKENS[:11], 2),
    }
    for name, (tokens, hits) in prompts.items():
        assert client.lookup_chunks(lookup_key(tokens, name)) == hits, name
        client.end_session(name).result(10)


def test_model_and_salt_are_part_of_the_identity(filled):
    one, worker, client = filled
    assert client.lookup_chunks(lookup_key(TOKENS, "salted", salt="alice")) == 0
    other = one.worker(model_name="other")
    assert client.lookup_chunks(lookup_key(TOKENS, "other", model_name="other")) == 0
    end(client, "salted", "other")
    other.unregister()


def test_a_hole_ends_the_prefix(server):
    one = server(shm=True)
    worker = one.worker()
    fill(worker, chunks=[0, 1, 3, 4])
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "r")) == 2
    assert one.l1()["read_locked_count"] == 2
    worker.client.end_session("r").result(10)
    worker.unregister()


def test_the_answer_is_delivered_once(filled):
    one, worker, client = filled
    client.lookup(lookup_key(TOKENS, "r")).result(10)
    assert client.query_prefetch_lookup_hits("r").result(10) == 10  # does not consume
    assert client.query_prefetch_status("r").result(10) == 10
    assert client.query_prefetch_status("r").result(10) == 0
    client.lookup(lookup_key(TOKENS, "r")).result(10)
    assert client.wait_prefetch_status("r", 30.0).result(10) == 10
    client.end_session("r").result(10)


def test_a_second_lookup_replaces_the_first(filled):
    one, worker, client = filled
    client.lookup(lookup_key(TOKENS, "r")).result(10)
    client.lookup(lookup_key(TOKENS[:8], "r")).result(10)
    assert client.query_prefetch_status("r").result(10) == 2
    poll_until(lambda: one.l1()["read_locked_count"] == 2, "the first lookup's locks go after the lease")
    client.end_session("r").result(10)


def test_freeing_and_retrieving_give_back_complementary_parts(filled):
    one, worker, client = filled
    assert client.lookup_chunks(lookup_key(TOKENS, "r")) == 10
    assert one.l1()["read_locked_count"] == 10
    client.free_lookup_locks(lookup_key(TOKENS, "r").with_range(0, 18)).result(10)  # four full chunks
    assert one.l1()["read_locked_count"] == 6
    assert len(worker.retrieve(worker.key(TOKENS, "r", start=16))) == 6
    assert one.l1()["read_locked_count"] == 0
    client.free_lookup_locks(lookup_key(TOKENS, "r")).result(10)  # nothing left, nothing below zero
    assert one.l1()["read_locked_count"] == 0
    client.end_session("r").result(10)


def test_nobody_can_release_what_another_session_holds(filled):
    one, worker, client = filled
    assert client.lookup_chunks(lookup_key(TOKENS, "mine")) == 10
    client.free_lookup_locks(lookup_key(TOKENS, "theirs")).result(10)
    assert len(worker.retrieve(worker.key(TOKENS, "theirs"))) == 10
    client.end_session("theirs").result(10)
    assert one.l1()["read_locked_count"] == 10
    client.free_lookup_locks(lookup_key(TOKENS, "mine")).result(10)
    assert one.l1()["read_locked_count"] == 0
    client.end_session("mine").result(10)


def test_a_lookup_outlives_its_session_by_the_lease(server):
    one = server("--session-lease-seconds", "2", shm=True)
    worker = one.worker()
    fill(worker)
    client = worker.client
    assert client.lookup_chunks(lookup_key(TOKENS, "r")) == 10
    client.end_session("r").result(10)
    assert one.l1()["read_locked_count"] == 10  # a retrieve may still be on its way
    assert len(worker.retrieve(worker.key(TOKENS, "r", end=20))) == 5
    one.sessions_left = 1  # the late retrieve made it anew
    poll_until(lambda: one.l1()["read_locked_count"] == 0, "the lease ends")
    worker.unregister()


def test_an_ended_session_has_no_answer_left(filled):
    one, worker, client = filled
    client.lookup(lookup_key(TOKENS, "r")).result(10)
    client.end_session("r").result(10)
    assert client.query_prefetch_status("r").result(10) == 0


def test_tensor_parallel_two_keeps_the_ledger_of_the_specification(server):
    """storage 4.6: TP2, ten chunks, 0-6 cached for both ranks, 8 for rank 0 only."""
    one = server("--chunk-size", "256", shm=True)
    tokens = list(range(2600))
    ranks = [one.worker(world_size=2, worker_id=rank, block_size=16) for rank in (0, 1)]
    fill(ranks[0], tokens, [0, 1, 2, 3, 4, 5, 6, 8], "fill0")
    fill(ranks[1], tokens, range(7), "fill1")
    client = ranks[0].client
    key = lookup_key(tokens, "r", chunk_size=256, world_size=2)
    assert client.lookup_chunks(key, 2) == 7
    assert one.l1()["read_locked_count"] == 14
    client.free_lookup_locks(key.with_range(0, 768), 2).result(10)
    assert one.l1()["read_locked_count"] == 8
    for rank in ranks:
        assert len(rank.retrieve(rank.key(tokens, "r", start=768, end=1792))) == 4
    assert one.l1()["read_locked_count"] == 0
    client.end_session("r").result(10)
    for rank in ranks:
        rank.unregister()


def test_shared_objects_wait_for_every_reader(server):
    """The same as MLA: one row, two readers of each object."""
    one = server("--chunk-size", "256", shm=True)
    tokens = list(range(2600))
    readers = [one.worker(use_mla=True, block_size=16) for _ in range(2)]
    fill(readers[0], tokens, range(7))
    client = readers[0].client
    key = lookup_key(tokens, "r", chunk_size=256, readers=2)
    assert client.lookup_chunks(key, 2) == 7
    client.free_lookup_locks(key.with_range(0, 768), 2).result(10)
    assert one.l1()["read_locked_count"] == 4
    for expected, reader in zip((4, 0), readers):
        assert len(reader.retrieve(reader.key(tokens, "r", start=768, end=1792))) == 4
        assert one.l1()["read_locked_count"] == expected
    client.end_session("r").result(10)
    for reader in readers:
        reader.unregister()


def test_an_old_client_without_reader_count_is_served(server, raw):
    """num_kv_readers 0: tp_size readers when it exceeds world_size, else one (D38)."""
    from house import key_map

    one = server(shm=True)
    worker = one.worker(use_mla=True)
    fill(worker)
    connection = raw(one)
    key = key_map(worker_id=None, token_ids=TOKENS, end=40, num_kv_readers=0)
    assert connection.call(8, key, 4) == "void"
    assert connection.call(9, "cmpl-0-aa") == 10
    for left in (10, 10, 10, 0):
        assert len(worker.retrieve(worker.key(TOKENS, "cmpl-0-aa"))) == 10
        assert one.l1()["read_locked_count"] == left
    connection.call(13, "cmpl-0-aa")
    worker.unregister()


def test_the_layout_goes_with_the_last_registration(filled):
    one, worker, client = filled
    twin = one.worker()
    twin.unregister()
    assert client.lookup_chunks(lookup_key(TOKENS, "a")) == 10
    client.end_session("a").result(10)
    worker.unregister()
    assert client.lookup_chunks(lookup_key(TOKENS, "b")) == 0
    worker.register()
    assert client.lookup_chunks(lookup_key(TOKENS, "c")) == 10
    end(client, "b", "c")


# ---- clear ----


def test_a_forced_clear_drops_what_is_held_and_voids_transfers(filled):
    one, worker, client = filled
    assert client.lookup_chunks(lookup_key(TOKENS, "r")) == 10
    other = list(range(8))
    assert len(client.prepare_store(worker.key(other, "w"), worker.instance_id).result(10).slots) == 2
    client.clear(True).result(10)
    assert client.lookup_chunks(lookup_key(TOKENS, "s")) == 0
    assert client.commit_store(worker.key(other, "w"), worker.instance_id).result(10) is True  # data dropped
    assert client.lookup_chunks(lookup_key(other, "t")) == 0
    end(client, "r", "s", "t", "w")
    poll_until(lambda: one.l1()["memory_used_bytes"] == 0, "all memory comes back")
    fill(worker)


def test_a_sparing_clear_keeps_what_is_held(filled):
    one, worker, client = filled
    assert client.lookup_chunks(lookup_key(TOKENS[:12], "r")) == 3
    other = list(range(8))
    assert len(client.prepare_store(worker.key(other, "w"), worker.instance_id).result(10).slots) == 2
    client.clear(False).result(10)
    assert one.l1()["total_object_count"] == 5
    assert client.commit_store(worker.key(other, "w"), worker.instance_id).result(10) is True
    assert client.lookup_chunks(lookup_key(other, "t")) == 2
    assert len(worker.retrieve(worker.key(TOKENS[:12], "r"))) == 3
    end(client, "r", "t", "w")


def test_a_cleared_object_is_not_reused_while_its_reader_reads(filled):
    one, worker, client = filled
    prepared = client.prepare_retrieve(worker.key(TOKENS, "r"), worker.instance_id).result(10)
    assert prepared.success and len(prepared.slots) == 10
    client.clear(True).result(10)
    fill(worker, list(range(5000, 5200)), request_id="again")
    assert [worker._pool.read(slot) for slot in prepared.slots] == [
        chunk_payload(index, worker.chunk_bytes) for index in range(10)
    ]
    assert client.commit_retrieve(worker.key(TOKENS, "r"), worker.instance_id).result(10) is True
    client.end_session("r").result(10)


# ---- several things at once ----


def test_pings_are_answered_while_a_waiter_waits(filled):
    one, worker, client = filled
    waiting = [client.wait_prefetch_status(f"nobody-{n}", 300.0) for n in range(16)]
    start = time.monotonic()
    assert all(client.ping().result(10) for _ in range(100))
    assert all(future.result(10) == 0 for future in waiting)  # unknown ids are answered at once
    assert time.monotonic() - start < 60


def test_more_readers_than_the_bound_are_cut_and_said_so(server):
    """storage.md 3.7: read locks are clamped to 128 with a warning."""
    one = server()
    worker = one.worker()
    tokens = list(range(8))
    worker.store(worker.key(tokens, "w"), [chunk_payload(n, worker.chunk_bytes) for n in range(2)])
    assert worker.client.lookup_chunks(lookup_key(tokens, "crowd", readers=100_000)) == 2
    assert "LMCache WARNING: num_kv_readers is cut to 128 (got 100000)" in one.wait_log("num_kv_readers.*").string
    one.allow("num_kv_readers is cut to 128")
    end(worker.client, "w", "crowd")
