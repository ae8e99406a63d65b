"""Wrong arguments raise where they are given; nothing of them is sent."""

import array
import dataclasses
import inspect

import pytest

from lmcached import (
    BlockAllocationRecord,
    CacheKey,
    Client,
    CpuShmTensor,
    EngineDrivenContext,
    EngineGroup,
    ServerModuleCallRequest,
    Worker,
)
from lmcached.client import encode_request

KEY = CacheKey("m", 1, 0, [1, 2, 3, 4], 0, 4, "r")
CONTEXT = EngineDrivenContext(1, "m", 1, 2, 2, 8, "float16", False)
RECORD = BlockAllocationRecord("r", [1], [2])
TENSOR = CpuShmTensor("kv", "float16", (2, 2))
# Every typed method with arguments that are right.
RIGHT = {
    "noop": [],
    "get_chunk_size": [],
    "get_experimental": [],
    "ping": [1],
    "lookup": [KEY, 1],
    "query_prefetch_status": ["r"],
    "wait_prefetch_status": ["r", 0.0],
    "query_prefetch_lookup_hits": ["r"],
    "free_lookup_locks": [KEY, 1],
    "end_session": ["r"],
    "clear": [True],
    "report_block_allocation": [1, "m", [RECORD]],
    "register_engine_driven": [CONTEXT],
    "unregister_engine_driven": [1],
    "prepare_store": [KEY, 1],
    "commit_store": [KEY, 1, b""],
    "prepare_retrieve": [KEY, 1],
    "commit_retrieve": [KEY, 1],
    "register_kv_cache": [1, [TENSOR], "m", 1, "vllm", {"kv_layout": "NHD"}, [EngineGroup(0)]],
    "unregister_kv_cache": [1],
    "store": [KEY, 1, [[1]], b""],
    "retrieve": [KEY, 1, [[1]], b"", 0],
    "server_module_call": [ServerModuleCallRequest("a.b", b"x")],
}
NOT_OPERATIONS = {"call", "close", "lookup_chunks"}
ODD = {"none": None, "number": 1.5, "text": "a", "bytes": b"a", "list": ["a"], "map": {"a": 1}, "bool": True, "object": object()}


class Unsent(Client):
    """Encodes, sends nothing."""

    def __init__(self):
        self._timeout = 1.0
        self.requests = []

    def _submit(self, operation, forms, timeout=None):
        self.requests.append([encode_request(0, operation, arguments) for arguments in forms])


@pytest.fixture
def client():
    client = Unsent()
    yield client
    assert client.requests == []


def changed(thing, member, value):
    return dataclasses.replace(thing, **{member: value})


def takes(method, name, example, value):
    """Whether an argument may have this value, going by one that is right."""
    if (method, name) == ("ping", "instance_id") and value is None:
        return True
    if name == "layout_hints":
        return value is None or isinstance(value, dict)
    return type(value) is type(example) and not isinstance(value, list)


def wrong_arguments():
    for method, arguments in RIGHT.items():
        names = list(inspect.signature(getattr(Client, method)).parameters)[1:]
        for at, example in enumerate(arguments):
            for kind, value in ODD.items():
                if not takes(method, names[at], example, value):
                    yield pytest.param(method, at, value, id=f"{method}-{names[at]}-{kind}")


def test_every_typed_method_is_tried_here():
    methods = {n for n, _ in inspect.getmembers(Client, inspect.isfunction) if not n.startswith("_")}
    assert set(RIGHT) == methods - NOT_OPERATIONS


def test_what_is_right_is_sent():
    client = Unsent()
    for method, arguments in RIGHT.items():
        getattr(client, method)(*arguments)
    assert len(client.requests) == len(RIGHT)


@pytest.mark.parametrize("method, at, value", wrong_arguments())
def test_a_wrong_type_raises_at_once(client, method, at, value):
    arguments = list(RIGHT[method])
    arguments[at] = value
    with pytest.raises(TypeError):
        getattr(client, method)(*arguments)


WRONG_MEMBERS = [
    (KEY, "model_name", None), (KEY, "model_name", b"m"), (KEY, "world_size", "1"), (KEY, "world_size", None),
    (KEY, "worker_id", "0"), (KEY, "worker_id", 0.0), (KEY, "token_ids", None), (KEY, "token_ids", "abcd"),
    (KEY, "token_ids", b"abcd"), (KEY, "token_ids", ["1", "2", "3", "4"]), (KEY, "token_ids", [1.0, 2.0, 3.0, 4.0]),
    (KEY, "token_ids", [1, 2, 3, None]), (KEY, "token_ids", [1, 2, 3, True]), (KEY, "token_ids", {1: 2}),
    (KEY, "start", "0"), (KEY, "end", 4.0), (KEY, "end", None), (KEY, "request_id", 7), (KEY, "request_id", None),
    (KEY, "cache_salt", None), (KEY, "cache_salt", b"s"), (KEY, "request_configs", [1]), (KEY, "request_configs", {1: 2}),
    (KEY, "request_configs", {"a": {1, 2}}), (KEY, "num_kv_readers", None), (KEY, "null_chunk_mask", [1]),
    (KEY, "null_chunk_mask", [[1]]), (KEY, "null_chunk_mask", "a"),
    (CONTEXT, "instance_id", "1"), (CONTEXT, "model_name", None), (CONTEXT, "world_size", 1.0), (CONTEXT, "block_size", "2"),
    (CONTEXT, "num_layers", None), (CONTEXT, "hidden_dim_size", "8"), (CONTEXT, "dtype_str", 2), (CONTEXT, "use_mla", 0),
    (CONTEXT, "num_physical_slots", "4"), (CONTEXT, "engine_group_infos", [1]), (CONTEXT, "group_hidden_dim_sizes", ["8"]),
    (CONTEXT, "group_layout_descs", [7]), (CONTEXT, "enable_l1_kvweave_quant", None),
    (CONTEXT, "engine_group_infos", [EngineGroup("0")]), (CONTEXT, "engine_group_infos", [EngineGroup(0, recurrent_state=1)]),
    (CONTEXT, "engine_group_infos", [EngineGroup(0, layer_indices=[None])]),
]  # fmt: skip


@pytest.mark.parametrize("thing, member, value", WRONG_MEMBERS, ids=lambda value: repr(value)[:30])
def test_a_wrong_member_raises_type_error(client, thing, member, value):
    wrong = changed(thing, member, value)
    methods = ("lookup", "free_lookup_locks") if thing is KEY else ("register_engine_driven",)
    if thing is KEY:
        for method in ("prepare_store", "commit_store", "prepare_retrieve", "commit_retrieve"):
            with pytest.raises(TypeError):
                getattr(client, method)(wrong, 1)
    for method in methods:
        with pytest.raises(TypeError):
            getattr(client, method)(wrong)


@pytest.mark.parametrize(
    "member, value, text",
    [
        ("token_ids", [1, 2, 3, -1], r"token_ids\[3\] must be in \[0, 4294967295\], not -1"),
        ("token_ids", [2**32, 2, 3, 4], r"token_ids\[0\] must be in"),
        ("model_name", "m@x", "must not hold '@'"),
        ("model_name", "\ud800", "cannot be written as UTF-8"),
        ("world_size", 0, "world_size must be in"),
        ("worker_id", 1, "worker_id must be in"),
        ("worker_id", -1, "worker_id must be in"),
        ("start", -4, "start must be in"),
        ("start", 5, "end must be in"),
        ("end", 2**63, "end must be in"),
        ("cache_salt", "a/b", "must not hold '/'"),
        ("cache_salt", "a\0b", "must not hold"),
        ("cache_salt", "s" * 129, "has 129 characters, more than 128"),
    ],
)  # fmt: skip
def test_what_no_server_takes_raises_value_error(client, member, value, text):
    wrong = changed(KEY, member, value)
    for method in ("lookup", "free_lookup_locks"):
        with pytest.raises(ValueError, match=text):
            getattr(client, method)(wrong)
    for method in ("prepare_store", "commit_store", "prepare_retrieve", "commit_retrieve"):
        with pytest.raises(ValueError, match=text):
            getattr(client, method)(wrong, 1)


def test_a_transfer_names_a_worker_and_stays_within_the_tokens(client):
    with pytest.raises(ValueError, match="needs a key with a worker_id"):
        client.prepare_store(KEY.for_worker(None), 1)
    with pytest.raises(ValueError, match="end 8 is beyond the 4 token_ids"):
        client.prepare_retrieve(KEY.with_range(0, 8), 1)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_wait_that_never_ends_is_refused(client, seconds):
    with pytest.raises(ValueError, match="seconds must be finite"):
        client.wait_prefetch_status("r", seconds)


def test_ids_of_more_than_64_bits_are_refused(client):
    for method in ("ping", "unregister_engine_driven", "unregister_kv_cache"):
        with pytest.raises(ValueError, match="instance_id must be in"):
            getattr(client, method)(2**63)


def test_a_number_is_no_payload(client):
    for payload in (5, "text", [1, 2], None):
        with pytest.raises(TypeError):
            client.server_module_call(ServerModuleCallRequest("a.b", payload))


def test_integers_of_other_kinds_are_tokens_too():
    class Whole:
        def __init__(self, value):
            self.value = value

        def __index__(self):
            return self.value

    for tokens in (array.array("I", [1, 2, 3, 4]), range(1, 5), (1, 2, 3, 4), [Whole(n) for n in range(1, 5)]):
        assert changed(KEY, "token_ids", tokens).to_wire() == KEY.to_wire()


def test_what_cannot_be_encoded_raises_from_an_untyped_call_too(fake_server):
    server = fake_server(lambda name, args: None)
    with Client(server.url) as client:
        with pytest.raises(TypeError):
            client.call("ping", object())
        with pytest.raises(OverflowError):
            client.call("ping", 2**70)
    assert server.requests == []


@pytest.mark.parametrize(
    "changes",
    [
        {"num_layers": "2"}, {"hidden_dim_size": None}, {"dtype": 5}, {"dtype": None}, {"model_name": None},
        {"block_size": 1.0}, {"use_mla": "yes"}, {"world_size": None}, {"worker_id": "0"}, {"instance_id": "1"},
        {"num_physical_slots": 1.5}, {"byte_copy": 1}, {"timeout": "60"},
    ],
    ids=str,
)  # fmt: skip
def test_a_worker_of_wrong_types_is_not_made(client, changes):
    options = {"model_name": "m", "num_layers": 2, "hidden_dim_size": 8, "dtype": "float16", **changes}
    with pytest.raises(TypeError):
        Worker(client, **options)


@pytest.mark.parametrize(
    "changes", [{"shm_name": None}, {"dtype": None}, {"shape": ("2",)}, {"strides": (1.0,)}, {"storage_offset": "0"}], ids=str
)
def test_a_tensor_in_shared_memory_of_wrong_types_is_refused(client, changes):
    with pytest.raises(TypeError):
        client.register_kv_cache(1, [dataclasses.replace(TENSOR, **changes)], "m", 1)

