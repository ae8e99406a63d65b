"""decisions.md and the traps of zmq-wire.md, line by line, over the wire."""

import socket

import msgpack
import pytest
from house import INSTANCE, chunk_payload, key_map, lookup_key, poll_until
from test_negatives import MISS, NOTHING_TO_STORE, REGISTRATION

TOKENS = list(range(1, 9))
VOID = "void"


@pytest.fixture
def one(server):
    started = server(shm=True)
    started.allow(r"lmcache\.(zmq|dispatch|cache|transfer|module)")
    started.sessions_left = 100
    return started


@pytest.fixture
def connection(one, raw):
    client = raw(one)
    assert client.call(14, REGISTRATION)["error"] is None
    yield client
    client.call(15, INSTANCE)


def stored(connection, key=None):
    key = key or key_map()
    assert len(connection.call(16, key, INSTANCE)["context"]["slots"]) > 0
    assert connection.call(17, key, INSTANCE, b"") is True


def uid():
    return msgpack.packb(1)


# ---- D1: what has no negative, and what is not served ----


@pytest.mark.parametrize(
    "operation, payload",
    [
        (1, [INSTANCE, [], "m", 1, "vllm", {}, []]),
        (3, [INSTANCE, [], "m", 1, "vllm", {}, []]),
        (4, [INSTANCE]),
        (5, [key_map(), INSTANCE, [[0]], b""]),
        (25, [INSTANCE, [], 64, True, [0], [[0]]]),
        (26, [INSTANCE]),
        (28, [key_map(worker_id=None), 1]),
        (29, [[], {}]),
        (30, [1]),
        (31, [[]]),
        (33, [1]),
        (34, ["m", 0, 10]),
        ("negotiate_chunk_size", [16]),
    ],
    ids=str,
)
def test_what_is_not_built_is_met_with_silence_and_a_line(one, connection, operation, payload):
    connection.expect_silence(uid(), msgpack.packb(operation), *map(msgpack.packb, payload))
    one.wait_log("LMCache (WARNING|ERROR):")


def test_store_and_retrieve_of_an_unknown_instance_say_false(connection):
    for number in (4242, INSTANCE):  # the latter is registered for the other kind of transfer
        assert connection.call(6, key_map(), number, [[0, 1]], b"handle") == [b"", False]
        assert connection.call(7, key_map(), number, [[0, 1]], b"handle", 0) == [b"", False]
        assert connection.call(7, key_map(), number, [[0, 1]], b"handle") == [b"", False]


def test_a_registration_of_device_memory_names_what_works(one, connection):
    wrapper = msgpack.ExtType(1, b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00N.")
    connection.expect_silence(
        uid(), msgpack.packb(1), *map(msgpack.packb, [INSTANCE, [wrapper], "m", 1, 3, None, []])
    )
    line = one.wait_log(r"LMCache ERROR:.*").group()
    assert "engine_driven" in line and "--shm-name" in line


def test_both_unregister_operations_serve_both_kinds(connection):
    assert connection.call(2, INSTANCE) == VOID
    assert connection.call(16, key_map(), INSTANCE) == NOTHING_TO_STORE
    assert connection.call(14, REGISTRATION)["error"] is None
    assert connection.call(15, INSTANCE) == VOID
    assert connection.call(16, key_map(), INSTANCE) == NOTHING_TO_STORE


def test_no_memory_gives_the_negatives(server, raw):
    one = server("--l1-size-gb", "0.01", "--eviction-policy", "noop")
    one.allow(".")
    one.sessions_left = 10
    for byte_copy in (False, True):
        client = raw(one)
        layout = {**REGISTRATION, "instance_id": 5 + byte_copy, "hidden_dim_size": 1 << 22}
        assert client.call(14, layout)["error"] is None
        prepared = client.call(16, key_map(), 5 + byte_copy)
        assert prepared in (NOTHING_TO_STORE, {"context": {}})
        assert client.call(17, key_map(), 5 + byte_copy, b"") is False
        assert client.call(18, key_map(), 5 + byte_copy) == MISS
        assert client.call(15, 5 + byte_copy) == VOID


# ---- D4 ----


def test_a_ping_is_answered_with_a_bool_and_false_once(one, raw):
    client = raw(one)
    for number in (0, 1, 2**31, 2**32, INSTANCE, 2**63 - 1, -1, -(2**63)):
        assert client.exchange(uid(), b"\x16", msgpack.packb(number))[2] == b"\xc2", number
        for _ in range(3):
            assert client.exchange(uid(), b"\x16", msgpack.packb(number))[2] == b"\xc3", number
    for frames in ([b"\xc0"], []):
        for _ in range(3):
            assert client.exchange(uid(), b"\x16", *frames)[2] == b"\xc3"
    registration = {**REGISTRATION, "instance_id": 2**31}
    assert client.call(14, registration)["error"] is None
    assert client.call(22, 2**31) is True
    assert client.call(15, 2**31) == VOID
    assert client.call(22, 2**31) is False, "registered and lost anew"
    assert client.call(22, 2**31) is True


def test_ids_that_were_told_are_bounded_in_number(one, raw):
    client = raw(one)
    for number in range(70_000):
        client.send(uid(), b"\x16", msgpack.packb(number))
        if number % 500 == 499:
            for _ in range(500):
                assert client.receive()[2] == b"\xc2"
    assert client.call(22, 69_999) is True
    assert client.call(22, 0) is False, "the oldest were dropped"


def test_a_restart_shows_as_boot_id(server):
    first, second = server(), server()
    assert first.status()["boot_id"] != second.status()["boot_id"]


# ---- D6, D36, D37 ----


def test_lazy_allocation_never_switches_shared_memory_off(server, raw):
    for flags in ([], ["--l1-use-lazy"], ["--no-l1-use-lazy"]):
        one = server(*flags, shm=True)
        client = raw(one)
        answer = client.call(14, REGISTRATION)
        assert answer["shm_name"].startswith("lmcache_l1_pool_") and answer["pool_size"] == 1 << 26
        assert set(answer) == {"shm_name", "pool_size", "scratch_offset", "scratch_size", "error"}
        assert client.call(15, INSTANCE) == VOID
        assert one.l1()["memory_total_bytes"] == 1 << 26


NIL_FOR_DEFAULT = {"cache_salt", "num_kv_readers", "request_configs", "null_chunk_mask"}


@pytest.mark.parametrize("member", sorted(key_map()))
def test_nil_takes_the_default_where_there_is_one(connection, member):
    key = key_map(worker_id=None, **({} if member == "worker_id" else {member: None}))
    if member in NIL_FOR_DEFAULT | {"worker_id"}:
        assert connection.call(8, key, 1) == VOID
        assert connection.call(9, "cmpl-0-aa") == 0
    else:
        connection.expect_silence(uid(), b"\x08", msgpack.packb(key), b"\x01")


@pytest.mark.parametrize("member", sorted(key_map()))
def test_missing_members_take_their_defaults(connection, member):
    key = {name: value for name, value in key_map(worker_id=None).items() if name != member}
    if member in NIL_FOR_DEFAULT:
        assert connection.call(8, key, 1) == VOID
    else:
        connection.expect_silence(uid(), b"\x08", msgpack.packb(key), b"\x01")


def test_unknown_members_and_order_do_not_matter(connection):
    key = {"zz": {"deep": [1, {"er": b"x"}]}, **dict(reversed(key_map(worker_id=None).items())), "yy": msgpack.ExtType(5, b"")}
    assert connection.call(8, key, 1) == VOID
    assert connection.call(9, "cmpl-0-aa") == 0
    changed = {**REGISTRATION, "instance_id": 77, "novel": [1, 2, {"a": None}], "engine_group_infos": [], "group_layout_descs": None}
    assert connection.call(14, changed)["error"] is None
    assert connection.call(15, 77) == VOID


def test_the_last_of_duplicate_members_wins(connection):
    packed = msgpack.packb(key_map(worker_id=None))
    twice = b"\x8c" + msgpack.packb("request_id") + msgpack.packb("first") + packed[1:]
    reply = connection.exchange(uid(), b"\x08", twice, b"\x01")
    assert len(reply) == 2
    stored(connection)
    assert connection.exchange(uid(), b"\x08", twice, b"\x01")[:1] == [uid()]
    assert connection.call(9, "first") == 0
    assert connection.call(9, "cmpl-0-aa") == 2


WIDE = {
    "uint8": b"\xcc\x08", "uint16": b"\xcd\x00\x08", "uint32": b"\xce\x00\x00\x00\x08", "uint64": b"\xcf" + b"\0" * 7 + b"\x08",
    "int8": b"\xd0\x08", "int16": b"\xd1\x00\x08", "int32": b"\xd2\x00\x00\x00\x08", "int64": b"\xd3" + b"\0" * 7 + b"\x08",
}  # fmt: skip


@pytest.mark.parametrize("form", WIDE)
def test_integers_of_every_width_are_taken(connection, form):
    packed = msgpack.packb(key_map(worker_id=None))
    packed = packed.replace(b"\xa3end\x08", b"\xa3end" + WIDE[form])
    packed = packed.replace(b"\x98\x01\x02\x03\x04\x05\x06\x07\x08", b"\xdd\x00\x00\x00\x08" + b"\x01\x02\x03\x04\x05\x06\x07" + WIDE[form])
    stored(connection)
    assert len(connection.exchange(uid(), b"\x08", packed, WIDE[form])) == 2
    assert connection.call(9, "cmpl-0-aa") == 2
    assert connection.call(13, "cmpl-0-aa") == VOID


@pytest.mark.parametrize(
    "changes",
    [{"end": 8.0}, {"end": "8"}, {"model_name": b"m"}, {"model_name": 5}, {"token_ids": b"12345678"}, {"token_ids": {}},
     {"token_ids": [1.0] * 8}, {"request_id": b"r"}, {"world_size": True}, {"cache_salt": b""}, {"null_chunk_mask": [[1]]},
     {"request_configs": []}],
    ids=str,
)  # fmt: skip
def test_members_of_another_type_do_not_decode(connection, changes):
    connection.expect_silence(uid(), b"\x08", msgpack.packb(key_map(worker_id=None, **changes)), b"\x01")


def test_a_void_reply_has_no_result_frame(connection):
    key = key_map(worker_id=None)
    for operation, payload in (
        (8, [key, 1]), (12, [key, 1]), (13, ["cmpl-0-aa"]), (13, ["r", None]), (13, ["r", {"finish_reason": "stop"}]),
        (20, []), (20, [True]), (20, [False]), (23, [INSTANCE, "m", []]), (15, [4242]), (2, [4242]),
    ):  # fmt: skip
        frames = connection.exchange(uid(), msgpack.packb(operation), *map(msgpack.packb, payload))
        assert len(frames) == 2, operation


# ---- D5, D43, D46, D73, D74 ----


def test_transfers_for_ended_and_unknown_sessions_are_served(connection):
    stored(connection)
    assert connection.call(13, "cmpl-0-aa") == VOID
    late = key_map(token_ids=list(range(100, 108)), request_id="ended-before-its-last-store")
    assert connection.call(13, late["request_id"]) == VOID
    stored(connection, late)
    assert connection.call(18, {**late, "request_id": "never seen"}, INSTANCE)["success"] is True
    assert connection.call(19, {**late, "request_id": "never seen"}, INSTANCE) is True


def test_a_commit_releases_its_own_request_s_transfer(one, connection):
    """D74: equal tokens, two requests."""
    stored(connection)
    first, second = key_map(request_id="a"), key_map(request_id="b")
    for key in (first, second):
        assert connection.call(18, key, INSTANCE)["success"] is True
    assert connection.call(19, first, INSTANCE) is True
    assert one.l1()["read_locked_count"] == 2, "the other is still copying"
    assert connection.call(19, key_map(request_id="c"), INSTANCE) is True  # takes the one that differs in its id only
    assert one.l1()["read_locked_count"] == 0
    assert connection.call(19, second, INSTANCE) is True


def test_two_stores_of_the_same_chunks_do_not_meet(one, connection):
    first, second = key_map(request_id="a"), key_map(request_id="b")
    assert len(connection.call(16, first, INSTANCE)["context"]["slots"]) == 2
    assert connection.call(16, second, INSTANCE) == NOTHING_TO_STORE
    assert connection.call(17, second, INSTANCE, b"") is True  # D74: the entry that differs in its id only
    assert connection.call(17, first, INSTANCE, b"") is False
    assert connection.call(8, key_map(worker_id=None), 1) == VOID
    assert connection.call(9, "cmpl-0-aa") == 2


@pytest.mark.parametrize("end, hits", [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (9, 2), (10**6, 2), (2**63 - 1, 2), (-1, 0)])
def test_the_end_of_a_lookup_is_floored_and_cut(connection, end, hits):
    stored(connection)
    for start in (0, 1, 5, -3):
        assert connection.call(8, key_map(worker_id=None, start=start, end=end), 1) == VOID
        assert connection.call(9, "cmpl-0-aa") == hits
        assert connection.call(12, key_map(worker_id=None, start=0, end=end), 1) == VOID
    assert connection.call(13, "cmpl-0-aa") == VOID


@pytest.mark.parametrize("end, chunks", [(5, 1), (7, 1), (8, 2)])
def test_the_end_of_a_transfer_is_floored(connection, end, chunks):
    assert len(connection.call(16, key_map(end=end), INSTANCE)["context"]["slots"]) == chunks
    assert connection.call(17, key_map(end=end), INSTANCE, b"") is True
    assert len(connection.call(18, key_map(end=end), INSTANCE)["context"]["slots"]) == chunks
    assert connection.call(19, key_map(end=end), INSTANCE) is True


def test_a_retrieve_needs_residence_not_a_lock(one, connection):
    stored(connection)
    assert connection.call(18, key_map(request_id="no lookup"), INSTANCE)["success"] is True
    assert connection.call(19, key_map(request_id="no lookup"), INSTANCE) is True
    assert connection.call(20, True) == VOID
    assert connection.call(18, key_map(request_id="no lookup"), INSTANCE) == MISS
    assert one.l1()["read_locked_count"] == 0


def test_polling_and_freeing_for_unknown_ids_creates_no_session(one, connection):
    before = one.status()["active_sessions"]
    for number in range(50):
        assert connection.call(9, f"unknown-{number}") == 0
        assert connection.call(10, f"unknown-{number}", 0.0) == 0
        assert connection.call(11, f"unknown-{number}") == 0
        assert connection.call(12, key_map(worker_id=None, request_id=f"unknown-{number}"), 1) == VOID
        assert connection.call(13, f"unknown-{number}") == VOID
    assert one.status()["active_sessions"] == before


# ---- D7 ----


@pytest.mark.parametrize("door, keeps", [
    ([], False), ([True], False), ([False], True), ("POST /cache/clear", False), ("POST /cache/clear {\"force\": false}", True),
    ("POST /cache/clear {\"force\": true}", False), ("POST /clear-cache {\"force\": false}", False), ("POST /api/clear-cache", False),
], ids=str)  # fmt: skip
def test_clear_honours_force_at_every_door(one, connection, door, keeps):
    stored(connection)
    other = key_map(token_ids=list(range(50, 58)))
    stored(connection, other)
    assert connection.call(8, key_map(worker_id=None), 1) == VOID
    assert connection.call(9, "cmpl-0-aa") == 2
    if isinstance(door, list):
        assert connection.call(20, *door) == VOID
    else:
        method, path, *body = door.split(" ", 2)
        answer = one.request(method, path, body[0] if body else None, {"Content-Type": "application/json"} if body else {})
        assert answer.status == 200, answer.text
    assert one.l1()["total_object_count"] == (2 if keeps else 0)
    assert connection.call(13, "cmpl-0-aa") == VOID


# ---- zmq-wire.md 16: the traps ----


def test_trap_1_localhost_can_be_bound(server):
    one = server("--host", "localhost")
    with socket.create_connection(("127.0.0.1", one.port)):
        pass


def test_trap_4_ids_of_64_bits_are_told_apart(one, raw):
    client = raw(one)
    low = 5
    for high in (0, 1 << 32, 1 << 62):
        assert client.call(14, {**REGISTRATION, "instance_id": high + low})["error"] is None
    assert sorted(one.status()["registered_non_cuda_instance_ids"]) == [low, (1 << 32) + low, (1 << 62) + low]
    assert client.call(15, (1 << 32) + low) == VOID
    assert sorted(one.status()["registered_non_cuda_instance_ids"]) == [low, (1 << 62) + low]
    assert client.call(16, key_map(), (1 << 32) + low) == NOTHING_TO_STORE
    for number in (low, (1 << 62) + low):
        client.call(15, number)


def test_trap_8_a_client_that_cannot_map_the_pool_copies(one):
    worker = one.worker(byte_copy=True)
    chunks = [chunk_payload(n, worker.chunk_bytes) for n in range(2)]
    key = worker.key(TOKENS, "r")
    prepared = worker.client.prepare_store(key, worker.instance_id).result(10)
    assert prepared.slots is None, "it is known to copy"
    assert worker.store(key, chunks)
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "r")) == 2
    assert worker.retrieve(key) == chunks
    assert one.l1()["read_locked_count"] == one.l1()["staging_object_count"] == 0
    worker.client.end_session("r").result(10)
    worker.unregister()


def test_trap_8_a_commit_with_bytes_fills_the_slots_that_were_reserved(one, connection):
    """An old client that found the pool out of reach only after its first prepare (9.4)."""
    from test_garbage import GOOD_SHAPE, GOOD_STRIDES, listing, storage, tensor

    good = tensor(storage(), GOOD_SHAPE, GOOD_STRIDES)
    assert len(connection.call(16, key_map(), INSTANCE)["context"]["slots"]) == 2
    assert connection.call(17, key_map(), INSTANCE, listing(good, good)) is True
    assert one.l1()["staging_object_count"] == 0
    answer = connection.call(18, key_map(), INSTANCE)
    assert answer["success"] is True and answer["data"] != b""
    assert connection.call(19, key_map(), INSTANCE) is True
    assert connection.call(16, key_map(token_ids=list(range(60, 68))), INSTANCE) == {"context": {}}


def test_trap_10_anything_may_be_the_first_request_after_a_restart(one, raw):
    client = raw(one)
    key = key_map()
    for operation, payload, expected in (
        (17, [key, INSTANCE, b""], False), (19, [key, INSTANCE], True), (12, [{**key, "worker_id": None}, 1], VOID),
        (9, ["r"], 0), (13, ["r"], VOID), (16, [key, INSTANCE], NOTHING_TO_STORE), (18, [key, INSTANCE], MISS),
        (15, [INSTANCE], VOID), (22, [INSTANCE], False), (23, [INSTANCE, "m", []], VOID),
    ):  # fmt: skip
        assert client.call(operation, *payload) == expected, operation


def test_trap_12_fifty_thousand_unread_replies_are_not_dropped(one, raw):
    client = raw(one)
    count = 50_000
    for number in range(count):
        client.send(msgpack.packb(number), b"\x18")
    seen = {client.receive()[0] for _ in range(count)}
    assert len(seen) == count


def test_trap_14_engine_driven_registrations_are_served_by_default(server, raw):
    for flags in ([], ["--supported-transfer-mode", "auto"], ["--supported-transfer-mode", "engine_driven"]):
        one = server(*flags, shm=True)
        client = raw(one)
        assert client.call(14, REGISTRATION)["error"] is None
        assert client.call(15, INSTANCE) == VOID


def test_queries_are_answered_at_once_while_transfers_are_busy(one, raw):
    """PING and SYNC operations wait for no transfer (5, guarantee 4)."""
    worker = one.worker(num_layers=4, hidden_dim_size=1 << 16, byte_copy=True)
    big = worker.chunk_bytes
    futures = []
    for number in range(8):
        key = worker.key([number + 1] * 4, f"busy-{number}")
        futures.append(worker.client.commit_store(key, worker.instance_id, b"\x80\x03X" + (big * 4).to_bytes(4, "little") + b"x" * (big * 4)))
    client = raw(one)
    for _ in range(100):
        assert client.call(22, None) is True
        assert client.call(24) == "OK"
    assert [future.result(60) for future in futures] == [False] * 8
    poll_until(lambda: one.l1()["staging_object_count"] == 0, "nothing half-written")
    worker.unregister()
