"""Who gets an answer (D1): silence only for what cannot be read, the operation's negative for
everything that cannot be served, and the server goes on in every case."""

import msgpack
import pytest
from house import INSTANCE, key_map

NOTHING_TO_STORE = {"context": {"slots": [], "chunk_indices": []}}
MISS = {"success": False, "data": b"", "context": {}}
REGISTRATION = {
    "instance_id": INSTANCE, "model_name": "m", "world_size": 1, "block_size": 2, "num_layers": 2,
    "hidden_dim_size": 8, "dtype_str": "float16", "use_mla": False, "num_physical_slots": 4,
}  # fmt: skip


@pytest.fixture
def plain(server, raw):
    one = server(shm=True)
    one.allow(".")  # provoked on every line of this file
    return raw(one)


@pytest.fixture
def registered(plain):
    assert plain.call(14, REGISTRATION)["error"] is None
    yield plain
    plain.call(15, INSTANCE)


def uid(number=7):
    return msgpack.packb(number)


# ---- silence ----

SILENT = {
    "no operation": [uid()],
    "operation id unknown": [uid(), msgpack.packb(99)],
    "operation id zero": [uid(), msgpack.packb(0)],
    "operation id negative": [uid(), msgpack.packb(-1)],
    "operation id huge": [uid(), msgpack.packb(2**64 - 1)],
    "operation name unknown": [uid(), msgpack.packb("nope")],
    "operation name empty": [uid(), msgpack.packb("")],
    "operation nil": [uid(), b"\xc0"],
    "operation float": [uid(), msgpack.packb(24.0)],
    "operation a list": [uid(), msgpack.packb([24])],
    "operation empty frame": [uid(), b""],
    "operation with trailing byte": [uid(), b"\x18\x18"],
    "operation truncated": [uid(), b"\xcd\x00"],
    "operation not built": [uid(), msgpack.packb(29), msgpack.packb([]), msgpack.packb({})],
    "noop with payload": [uid(), msgpack.packb(24), b"\xc0"],
    "ping with two payloads": [uid(), msgpack.packb(22), b"\xc0", b"\xc0"],
    "lookup without tp_size": [uid(), msgpack.packb(8), msgpack.packb(key_map(worker_id=None))],
    "ping with a list": [uid(), msgpack.packb(22), msgpack.packb([1])],
    "ping with a text": [uid(), msgpack.packb(22), msgpack.packb("1")],
    "ping with an empty frame": [uid(), msgpack.packb(22), b""],
    "ping with a reserved byte": [uid(), msgpack.packb(22), b"\xc1"],
    "ping with two values": [uid(), msgpack.packb(22), b"\x01\x02"],
    "key is a list": [uid(), msgpack.packb(8), msgpack.packb([1]), msgpack.packb(1)],
    "key without model": [
        uid(), msgpack.packb(8),
        msgpack.packb({k: v for k, v in key_map(worker_id=None).items() if k != "model_name"}), msgpack.packb(1),
    ],
    "model name is bytes": [uid(), msgpack.packb(8), msgpack.packb(key_map(model_name=b"m")), msgpack.packb(1)],
    "token is a text": [uid(), msgpack.packb(8), msgpack.packb(key_map(token_ids=["a"])), msgpack.packb(1)],
    "request id is nil": [uid(), msgpack.packb(9), b"\xc0"],
    "commit data is text": [uid(), msgpack.packb(17), msgpack.packb(key_map()), uid(), msgpack.packb("text")],
    "list of 2^32-1 tokens promised": [uid(), msgpack.packb(8), b"\x81\xa9token_ids\xdd\xff\xff\xff\xff", b"\x01"],
    "nested ten thousand deep": [uid(), msgpack.packb(13), msgpack.packb("r"), b"\x91" * 10000 + b"\xc0"],
}  # fmt: skip


@pytest.mark.parametrize("case", SILENT, ids=str)
def test_what_cannot_be_read_stays_unanswered(plain, case):
    plain.expect_silence(*SILENT[case])


def test_a_request_of_one_thousand_frames_stays_unanswered(plain):
    plain.expect_silence(uid(), msgpack.packb(24), *([b"\xc0"] * 1000))


# ---- negatives ----

BAD_KEYS = {
    "salt with @": key_map(cache_salt="a@b"),
    "salt with /": key_map(cache_salt="a/b"),
    "salt with backslash": key_map(cache_salt="a\\b"),
    "salt with NUL": key_map(cache_salt="a\0b"),
    "salt too long": key_map(cache_salt="s" * 129),
    "model name with @": key_map(model_name="m@x"),
    "world_size 0": key_map(world_size=0),
    "token below 0": key_map(token_ids=[-1] + [1] * 7),
    "token above 2^32-1": key_map(token_ids=[2**32] + [1] * 7),
}
BAD_TRANSFER_KEYS = {
    **BAD_KEYS,
    "worker_id nil": key_map(worker_id=None),
    "worker_id outside": key_map(worker_id=1),
    "worker_id negative": key_map(worker_id=-1),
    "start not aligned": key_map(start=2),
    "end beyond the tokens": key_map(end=12),
}


@pytest.mark.parametrize("case", BAD_KEYS)
def test_lookup_of_a_bad_key_is_a_job_with_no_hits(registered, case):
    key = {**BAD_KEYS[case], "worker_id": None}
    assert registered.call(8, key, 1) == "void"
    assert registered.call(9, key["request_id"]) == 0
    assert registered.call(12, key, 1) == "void"


@pytest.mark.parametrize("case", BAD_TRANSFER_KEYS)
def test_transfers_of_a_bad_key_get_their_negatives(registered, case):
    key = BAD_TRANSFER_KEYS[case]
    assert registered.call(16, key, INSTANCE) == NOTHING_TO_STORE
    assert registered.call(17, key, INSTANCE, b"") is False
    assert registered.call(18, key, INSTANCE) == MISS
    assert registered.call(19, key, INSTANCE) is True


def test_an_unknown_instance_gets_the_negatives(plain):
    assert plain.call(16, key_map(), 4242) == NOTHING_TO_STORE
    assert plain.call(17, key_map(), 4242, b"") is False
    assert plain.call(18, key_map(), 4242) == MISS
    assert plain.call(19, key_map(), 4242) is True
    assert plain.call(15, 4242) == "void"
    assert plain.call(2, 4242) == "void"


@pytest.mark.parametrize(
    "operation, more",
    [(16, []), (17, [b""]), (17, [b"no tensors"]), (18, [])],
    ids=["prepare_store", "commit_store", "commit_store of bytes", "prepare_retrieve"],
)
def test_the_log_says_that_an_instance_is_not_registered(server, raw, operation, more):
    one = server(shm=True)
    one.allow("not registered|cannot be read")
    raw(one).call(operation, key_map(), 4242, *more)
    one.wait_log(r"LMCache WARNING: .*instance 4242 is not registered")


def test_the_log_says_that_no_worker_of_a_model_is_registered(server, raw):
    one = server()
    connection = raw(one)
    assert connection.call(8, key_map(worker_id=None), 1) == "void"
    one.wait_log(r"LMCache INFO: Lookup answered with 0 chunks: no worker of model \S+ with world_size 1 is registered")
    assert connection.call(13, "cmpl-0-aa") == "void"


def test_unknown_request_ids_are_answered(plain):
    assert plain.call(9, "nobody") == 0
    assert plain.call(10, "nobody", 300.0) == 0
    assert plain.call(11, "nobody") == 0
    assert plain.call(13, "nobody") == "void"
    assert plain.call(12, key_map(worker_id=None), 1) == "void"


def test_a_lookup_of_an_unregistered_model_hits_nothing(plain):
    assert plain.call(8, key_map(worker_id=None), 1) == "void"
    assert plain.call(9, "cmpl-0-aa") == 0
    assert plain.call(13, "cmpl-0-aa") == "void"


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype_str": "complex64"}, {"num_layers": 0}, {"hidden_dim_size": -8}, {"num_physical_slots": 0},
        {"world_size": 0}, {"model_name": "m@x"}, {"hidden_dim_size": 2**62}, {"enable_l1_kvweave_quant": True},
        {"num_layers": 2**40, "hidden_dim_size": 2**40},
    ],
    ids=lambda changes: "-".join(changes),
)  # fmt: skip
def test_a_registration_that_cannot_be_served_says_why(plain, changes):
    reply = plain.call(14, {**REGISTRATION, **changes})
    assert set(reply) == {"shm_name", "pool_size", "scratch_offset", "scratch_size", "error"}
    assert (reply["shm_name"], reply["pool_size"]) == ("", 0)
    assert isinstance(reply["error"], str) and reply["error"]
    assert plain.call(16, key_map(), INSTANCE) == NOTHING_TO_STORE, "the instance stays unregistered"


def test_the_envelope_is_answered_whatever_it_holds(plain):
    name = msgpack.packb("server_module_call")
    for payload in (b"", b"\xc1", b"\xc0", msgpack.packb(5), msgpack.packb({"method": 5}), b"\xde\xff\xff"):
        reply = plain.exchange(uid(), name, payload)
        answer = msgpack.unpackb(reply[2])
        assert answer["success"] is False and answer["payload"] == b"" and answer["error"]
    answer = plain.call("server_module_call", {"method": "nope.x", "payload": b""})
    assert answer == {"success": False, "payload": b"", "error": "unknown server module method: nope.x"}


def test_device_memory_is_refused_in_the_log(server, raw):
    one = server(shm=True)
    one.allow("engine_driven")
    connection = raw(one)
    connection.expect_silence(
        uid(), msgpack.packb(1), msgpack.packb(INSTANCE), msgpack.packb([]), msgpack.packb("m"), msgpack.packb(1),
        msgpack.packb("vllm"), msgpack.packb({}), msgpack.packb([]),
    )  # fmt: skip
    one.wait_log(r"LMCache ERROR:.*engine_driven")
    assert "--shm-name" in one.log()


def test_unknown_members_and_missing_ones_are_tolerated(registered):
    old_key = {name: value for name, value in key_map(worker_id=None).items() if name in (
        "model_name", "world_size", "worker_id", "token_ids", "start", "end", "request_id")}  # fmt: skip
    assert registered.call(8, {**old_key, "later": {"a": [1]}}, 1) == "void"
    assert registered.call(9, "cmpl-0-aa") == 0
    assert registered.call(13, "cmpl-0-aa") == "void"


def test_ping_is_a_bool_and_nothing_else(registered):
    for argument in (None, INSTANCE):
        assert registered.call(22, argument) is True
    assert registered.call(22) is True
    assert registered.call(22, 4242) is False  # once (D4)
    assert registered.call(22, 4242) is True
    assert registered.call(22, 4242) is True


def test_the_server_survives_http_on_its_port(server, raw):
    import socket

    one = server()
    one.allow("zmq")
    with socket.create_connection(("127.0.0.1", one.port), timeout=30) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while stranger.recv(4096):
            pass  # until the server closes it
    assert raw(one).call(24) == "OK"


# ---- reasons ----


@pytest.mark.parametrize(
    "operation, arguments",
    [(16, [INSTANCE]), (17, [INSTANCE, b""]), (17, [INSTANCE, b"x"]), (18, [INSTANCE]), (12, [1])],
    ids=["prepare_store", "commit_store", "commit_store with bytes", "prepare_retrieve", "free_lookup_locks"],
)
def test_a_key_that_is_refused_is_logged_with_what_is_wrong(server, raw, operation, arguments):
    one = server(shm=True)
    one.allow(".")
    client = raw(one)
    assert client.call(14, REGISTRATION)["error"] is None
    salt = {"cache_salt": "a/b"} if operation == 12 else {"end": 99}
    client.exchange(uid(), msgpack.packb(operation), msgpack.packb(key_map(**salt)), *map(msgpack.packb, arguments))
    one.wait_log(r"Error handling operation \w+: invalid: (end \(99\) exceeds|cache_salt must not contain)")
    client.call(15, INSTANCE)
