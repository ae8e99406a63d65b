"""Two connections that work for one instance, one of them against the other: nothing is lost but their own."""

import threading
import time

import msgpack
import pytest
from house import INSTANCE, chunk_payload, key_map
from lmcached.tensors import write_tensors

REGISTRATION = {
    "instance_id": INSTANCE, "model_name": "m", "world_size": 1, "block_size": 2, "num_layers": 2,
    "hidden_dim_size": 8, "dtype_str": "float16", "use_mla": False,
}  # fmt: skip
WIDE = {**REGISTRATION, "hidden_dim_size": 4096}
TENSORS = {
    **REGISTRATION, "num_layers": 4, "group_hidden_dim_sizes": [8, 4096],
    "engine_group_infos": [{"engine_group_id": 0, "layer_indices": [0, 1]}, {"engine_group_id": 1, "layer_indices": [2, 3]}],
}  # fmt: skip
TOKENS = list(range(1, 16001))
KEY = msgpack.packb(key_map(token_ids=TOKENS, end=len(TOKENS), request_id="big"))
SMALL = key_map(token_ids=TOKENS[:64], end=64, request_id="small")


def slots_are_whole(reply):
    slots = reply["context"].get("slots", [])
    assert all(slot["length"] > 0 and slot["offset"] + slot["length"] <= 256 << 20 for slot in slots)
    return len(slots)


def ask(client, operation, *rest):
    """With a key that is packed once only, so that this side is quick."""
    reply = client.exchange(b"\x01", msgpack.packb(operation), KEY, msgpack.packb(INSTANCE), *rest)
    return msgpack.unpackb(reply[2])


def prepare(client):
    client.call(14, REGISTRATION)
    slots_are_whole(ask(client, 16))


def store_and_load(client):
    prepare(client)
    ask(client, 17, b"\xc4\x00")
    slots_are_whole(ask(client, 18))
    ask(client, 19)


def many(client, *frames):
    for _ in range(50):
        client.send(b"\x01", *frames)
    for _ in range(50):
        assert client.receive() is not None


def unregister(client):
    many(client, b"\x0f", msgpack.packb(INSTANCE))


def commit(client):
    many(client, b"\x13", KEY, msgpack.packb(INSTANCE))


def store_bytes(client, registration):
    client.call(14, registration)
    wide = registration is not REGISTRATION
    shape = (2, 2, 4, 4096) if wide else (2, 2, 4, 8)
    size = 2 * 2 * 2 * 4 * shape[3]
    client.call(17, SMALL, INSTANCE, write_tensors([chunk_payload(n, size) for n in range(16)], "float16", shape))
    reply = client.call(18, SMALL, INSTANCE)
    client.call(19, SMALL, INSTANCE)
    return reply


@pytest.mark.parametrize(
    "work, others",
    [
        (prepare, unregister),
        (store_and_load, commit),
        (store_and_load, unregister),
        (
            lambda c: (c.call(14, REGISTRATION), c.call(16, SMALL, INSTANCE), c.call(15, INSTANCE)),
            lambda c: (store_bytes(c, WIDE), c.call(15, INSTANCE)),
        ),
        (lambda c: (store_bytes(c, TENSORS), c.call(15, INSTANCE)), lambda c: (store_bytes(c, REGISTRATION), c.call(15, INSTANCE))),
    ],
    ids=["prepare-unregister", "load-commit", "load-unregister", "other-size", "other-tensors"],
)  # fmt: skip
def test_two_connections_of_one_instance_hurt_each_other_only(server, raw, work, others):
    one = server("--l1-size-gb", "0.25", shm=True)
    one.allow(".")
    one.sessions_left = 10
    # What another instance has stored keeps its bytes.
    bystander = one.worker(instance_id=1)
    chunks = [chunk_payload(n, bystander.chunk_bytes) for n in range(10)]
    mine = list(range(90_001, 90_041))
    assert bystander.store(bystander.key(mine, "mine"), chunks)
    end_at, failures = time.monotonic() + 3, []

    def run(act):
        client = raw(one)
        try:
            while time.monotonic() < end_at:
                act(client)
        except Exception as failure:  # shown by the assertion below
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(act,)) for act in (work, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and one.process.poll() is None, (failures, one.log()[-500:])
    assert bystander.retrieve(bystander.key(mine, "mine")) == chunks
    bystander.client.end_session("mine").result(30)
    bystander.unregister()
    client = raw(one)
    client.send(b"\x01", msgpack.packb(15), msgpack.packb(INSTANCE))
    client.receive()
