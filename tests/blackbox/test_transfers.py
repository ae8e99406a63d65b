"""KV chunks in and out, through shared memory and through byte copy, across processes."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from house import INSTANCE, ROOT, chunk_payload, end, key_map, lookup_key, poll_until

from lmcached import CacheKey
from lmcached.tensors import read_tensors, write_tensors

LAYOUT = {"num_layers": 2, "hidden_dim_size": 8, "dtype": "float16", "block_size": 2}
TOKENS = list(range(100, 140))  # ten chunks of four
MISS = "prepare_retrieve: not found"


def second(server, action, *, expect_death=False, **job):
    """Runs a client in a process of its own and returns what it printed."""
    job = {"action": action, "layout": LAYOUT, "tokens": TOKENS, **job}
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, os.path.join(here, "second_process.py"), server.url, json.dumps(job)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{here}"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    print(done.stderr)  # shown when the test fails
    assert (done.returncode == -9) == expect_death and (expect_death or done.returncode == 0), done.stderr
    return json.loads(done.stdout)


def digests(seed, count, size=256):
    return [hashlib.sha256(chunk_payload((seed, index), size)).hexdigest() for index in range(count)]


@pytest.mark.parametrize("writer", ["shm", "pickle"])
@pytest.mark.parametrize("reader", ["shm", "pickle"])
def test_chunks_survive_from_one_process_to_another(server, writer, reader):
    one = server(shm=True)
    stored = second(one, "store", seed=5, layout={**LAYOUT, "byte_copy": writer == "pickle"}, unregister=True)
    assert stored == {"transport": writer, "stored": True}
    loaded = second(one, "retrieve", layout={**LAYOUT, "byte_copy": reader == "pickle"})
    assert loaded == {"transport": reader, "chunks": 10, "digests": digests(5, 10)}


def test_a_server_without_a_pool_copies_bytes(server):
    one = server()
    assert second(one, "store", seed=1) == {"transport": "pickle", "stored": True}
    assert second(one, "retrieve")["digests"] == digests(1, 10)


@pytest.mark.parametrize(
    "layout",
    [
        {"num_layers": 3, "hidden_dim_size": 24, "dtype": "bfloat16", "block_size": 4, "use_mla": True},
        {"num_layers": 1, "hidden_dim_size": 5, "dtype": "uint8", "block_size": 1},
        {"num_layers": 2, "hidden_dim_size": 7, "dtype": "float8_e4m3fn", "block_size": 2},
        {"num_layers": 2, "hidden_dim_size": 3, "dtype": "float64", "block_size": 2, "num_physical_slots": 6},
    ],
    ids=["mla-bf16", "odd-u8", "fp8", "slots"],
)
@pytest.mark.parametrize("shm", [True, False], ids=["shm", "pickle"])
def test_every_layout_round_trips(server, layout, shm):
    one = server(shm=shm)
    worker = one.worker(**layout)
    chunks = [chunk_payload(index, worker.chunk_bytes) for index in range(10)]
    assert worker.store(worker.key(TOKENS, "r"), chunks)
    assert worker.retrieve(worker.key(TOKENS, "r")) == chunks
    assert worker.retrieve(worker.key(TOKENS, "r", start=12, end=24)) == chunks[3:6]
    worker.client.end_session("r").result(10)
    worker.unregister()


def test_large_chunks_by_byte_copy(server):
    one = server("--l1-size-gb", "0.25", "--chunk-size", "256")
    worker = one.worker(num_layers=8, hidden_dim_size=1024, dtype="bfloat16", block_size=16)
    assert worker.chunk_bytes == 8 << 20
    tokens = list(range(1024))
    chunks = [chunk_payload(index, worker.chunk_bytes) for index in range(4)]
    assert worker.store(worker.key(tokens, "r"), chunks)
    assert worker.retrieve(worker.key(tokens, "r")) == chunks
    end(worker.client, "r")
    worker.unregister()


def test_what_is_there_already_is_not_stored_again(server):
    one = server(shm=True)
    worker = one.worker()
    chunks = [chunk_payload(index, worker.chunk_bytes) for index in range(10)]
    assert worker.store(worker.key(TOKENS, "a", end=12), chunks[:3])
    prepared = worker.client.prepare_store(worker.key(TOKENS, "b"), worker.instance_id).result(10)
    assert prepared.chunk_indices == [3, 4, 5, 6, 7, 8, 9]
    assert worker.client.commit_store(worker.key(TOKENS, "b"), worker.instance_id).result(10) is True
    assert one.l1()["total_object_count"] == 10
    assert worker.store(worker.key(TOKENS, "c"), chunks) is True  # nothing to do
    one.wait_log("Stored 28 tokens")
    told = [line.split("Stored ")[1].split(" tokens")[0] for line in one.log().splitlines() if "Stored " in line]
    assert told == ["12", "28"]  # only what became readable
    end(worker.client, "a", "b", "c")
    worker.unregister()


@pytest.mark.parametrize("shm", [True, False], ids=["shm", "pickle"])
def test_a_worker_that_the_server_dropped_registers_again_and_stores(server, shm):
    one = server(shm=shm)
    one.allow("not registered|not found")
    worker = one.worker()
    chunks = [chunk_payload(index, worker.chunk_bytes) for index in range(10)]
    worker.client.unregister_engine_driven(worker.instance_id).result(10)
    assert worker.store(worker.key(TOKENS, "a"), chunks) is True
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "a")) == 10
    worker.client.unregister_engine_driven(worker.instance_id).result(10)
    assert worker.retrieve(worker.key(TOKENS, "a")) is None
    assert worker.retrieve(worker.key(TOKENS, "a")) == chunks
    end(worker.client, "a")
    worker.unregister()


def test_half_written_chunks_are_invisible_until_they_are_committed(server):
    one = server(shm=True)
    one.allow(MISS)
    worker = one.worker()
    key = worker.key(TOKENS, "a")
    assert len(worker.client.prepare_store(key, worker.instance_id).result(10).slots) == 10
    assert one.l1()["staging_object_count"] == 10
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "b")) == 0
    assert worker.retrieve(key) is None
    assert worker.client.commit_store(key, worker.instance_id).result(10) is True
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "c")) == 10
    end(worker.client, "a", "b", "c")
    worker.unregister()


def test_unregister_discards_what_was_only_reserved(server):
    one = server(shm=True)
    worker = one.worker()
    worker.client.prepare_store(worker.key(TOKENS, "a"), worker.instance_id).result(10)
    worker.unregister()
    assert one.l1()["total_object_count"] == 0
    worker.register()
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "b")) == 0
    end(worker.client, "a", "b")
    worker.unregister()


def test_a_client_that_dies_between_prepare_and_commit_loses_only_its_own_chunks(server):
    one = server(shm=True)
    one.sessions_left = 1
    second(one, "store", seed=3, tokens=TOKENS[:20])
    assert second(one, "prepare-and-die", expect_death=True, request_id="dead")["slots"] == 5
    poll_until(lambda: one.l1()["staging_object_count"] == 0, "the dead client's slots go")
    assert second(one, "retrieve", tokens=TOKENS[:20])["digests"] == digests(3, 5)


def test_a_client_that_dies_after_its_lookup_gives_its_locks_back(server):
    one = server(shm=True)
    one.sessions_left = 1
    second(one, "store", seed=3)
    assert second(one, "lookup-and-die", expect_death=True, request_id="dead")["chunks"] == 10
    poll_until(lambda: one.l1()["read_locked_count"] == 0, "the dead client's locks go")
    assert second(one, "retrieve")["digests"] == digests(3, 10)


def test_a_client_that_cannot_map_the_pool_still_stores_and_loads(server):
    """The pool is offered, but this client sends bytes (zmq-wire 9.4, last paragraph)."""
    one = server(shm=True)
    worker = one.worker(byte_copy=True)
    chunks = [chunk_payload(index, worker.chunk_bytes) for index in range(10)]
    assert worker.store(worker.key(TOKENS, "a"), chunks)
    assert worker.retrieve(worker.key(TOKENS, "a")) == chunks
    assert worker.client.prepare_store(worker.key(list(range(8)), "b"), worker.instance_id).result(10).slots is None
    end(worker.client, "a", "b")
    worker.unregister()


def test_a_tensor_of_the_wrong_shape_is_dropped_and_said_so(server):
    from lmcached import write_tensors

    one = server()
    one.allow(MISS, "shape")
    worker = one.worker()
    key = worker.key(TOKENS[:8], "a")
    worker.client.prepare_store(key, worker.instance_id).result(10)
    wrong = write_tensors([bytes(256)], "float16", (2, 2, 8, 4))[: -len(b"e.")]
    right = write_tensors([bytes(range(256))], "float16", (2, 2, 4, 8))[len(b"\x80\x03](") :]
    assert worker.client.commit_store(key, worker.instance_id, wrong + right).result(10) is False
    assert worker.client.lookup_chunks(lookup_key(TOKENS[:8], "b")) == 0
    assert worker.retrieve(key) is None
    end(worker.client, "a", "b")
    worker.unregister()


def test_garbage_instead_of_a_pickle_stores_nothing(server):
    one = server()
    one.allow("pickle", "commit_store")
    worker = one.worker()
    key = worker.key(TOKENS[:8], "a")
    for data in (b"garbage", b"\x80\x04N.", b"cos\nsystem\n(X\x04\x00\x00\x00truetR.", b"\x80\x04]" + b"(" * 5000):
        assert worker.client.commit_store(key, worker.instance_id, data).result(10) is False
    assert one.l1()["total_object_count"] == 0
    end(worker.client, "a")
    worker.unregister()


def test_masked_chunks_are_neither_reserved_nor_required(server):
    one = server(shm=True)
    one.allow(MISS)
    worker = one.worker()
    mask = [[False, True, False, False, True, False, False, False, False, False]]
    plain = worker.key(TOKENS, "a")
    key = CacheKey(**{**plain.__dict__, "null_chunk_mask": mask})
    prepared = worker.client.prepare_store(key, worker.instance_id).result(10)
    assert prepared.chunk_indices == [0, 2, 3, 5, 6, 7, 8, 9]
    assert worker.client.commit_store(key, worker.instance_id).result(10) is True
    assert len(worker.client.prepare_retrieve(key, worker.instance_id).result(10).slots) == 8
    assert worker.client.commit_retrieve(key, worker.instance_id).result(10) is True
    assert worker.retrieve(plain) is None
    end(worker.client, "a")
    worker.unregister()


def test_a_full_cache_evicts_the_oldest_instead_of_refusing(server):
    one = server("--l1-size-gb", "0.0625", "--eviction-trigger-watermark", "1.0", shm=True)
    worker = one.worker(hidden_dim_size=16384)  # 512 KiB a chunk: 128 fit
    capacity = (64 << 20) // worker.chunk_bytes
    for prompt in range(3):
        tokens = [prompt * 10_000 + n for n in range(4 * (capacity // 2))]
        chunks = [chunk_payload((prompt, n), worker.chunk_bytes) for n in range(capacity // 2)]
        assert worker.store(worker.key(tokens, f"p{prompt}"), chunks)
        assert worker.retrieve(worker.key(tokens, f"p{prompt}")) == chunks
        worker.client.end_session(f"p{prompt}").result(10)
    assert one.l1()["memory_used_bytes"] <= 64 << 20
    worker.unregister()


@pytest.mark.parametrize("shm", [True, False])
def test_a_window_s_chunks_say_where_they_belong_when_others_are_left_out(server, raw, shm):
    """D43: of a windowed group the last chunks are delivered. Who did not mask the others needs the places."""
    one = server(shm=shm)
    client = raw(one)
    groups = [
        {"engine_group_id": 0, "layer_indices": [0, 1]},
        {"engine_group_id": 1, "layer_indices": [2, 3], "sw_size_tokens": 6},
    ]
    registration = {
        "instance_id": INSTANCE, "model_name": "m", "world_size": 1, "block_size": 2, "num_layers": 4,
        "hidden_dim_size": 8, "dtype_str": "float16", "use_mla": False, "engine_group_infos": groups,
    }  # fmt: skip
    assert client.call(14, registration)["error"] is None
    tokens = list(range(1, 33))
    key = key_map(token_ids=tokens, end=32)
    client.call(16, key, INSTANCE)
    chunks = [chunk_payload(n, 256) for n in range(16)]
    assert client.call(17, key, INSTANCE, b"" if shm else write_tensors(chunks, "float16", (2, 2, 4, 8))) is True

    def retrieve(mask):
        reply = client.call(18, {**key, "null_chunk_mask": mask}, INSTANCE)
        client.call(19, {**key, "null_chunk_mask": mask}, INSTANCE)
        assert reply["success"] is True
        if not shm:
            assert [t.tobytes() for t in read_tensors(reply["data"])] == chunks[:8] + chunks[14:]
        return reply["context"]

    wanted = {"slots": [], "chunk_indices": [*range(8), 14, 15]}
    shown = retrieve(None)
    assert (len(shown["slots"]), shown["chunk_indices"]) == (10 if shm else 0, wanted["chunk_indices"])
    all_but = [[False] * 8, [True] * 6 + [False] * 2]
    assert "chunk_indices" not in retrieve(all_but), "the client masked what is left out"
    client.call(13, key["request_id"])
    client.call(15, INSTANCE)
