"""What a worker makes of a server's answers, and of keys that no server would take."""

import msgpack
import pytest

from lmcached import Client, NotRegistered, Worker

NOTHING = {"context": {"slots": [], "chunk_indices": []}}
MISS = {"success": False, "data": b"", "context": {}}
TOKENS = list(range(1, 9))  # two chunks of four


class Server:
    """Answers a worker. ``registrations`` are the answers to come; the last one stays."""

    def __init__(self, fake_server, registrations=({},), prepare_store=NOTHING):
        self.registrations = list(registrations)
        self.prepare_store = prepare_store
        self.fake = fake_server(self.answer)

    def answer(self, name, arguments):
        if name == 14:
            reply = self.registrations.pop(0) if len(self.registrations) > 1 else self.registrations[0]
            value = {"shm_name": "", "pool_size": 0, "error": None, **reply}
        else:
            value = {21: 4, 16: self.prepare_store, 17: True, 18: MISS, 19: True}.get(name)
        return [] if value is None else [msgpack.packb(value)]

    def count(self, operation):
        return sum(name == operation for name, _ in self.fake.requests)


@pytest.fixture
def worker_of():
    clients = []

    def start(server, **options):
        clients.append(Client(server.fake.url, timeout=20))
        worker = Worker(clients[-1], "m", num_layers=2, hidden_dim_size=8, dtype="float16", block_size=2, **options)
        worker.register()
        return worker

    yield start
    for client in clients:
        client.close()


def chunks_of(worker, count=2):
    return [bytes(worker.chunk_bytes)] * count


def test_a_byte_copy_that_is_refused_is_not_taken_for_stored(fake_server, worker_of):
    server = Server(fake_server)
    worker = worker_of(server)
    assert worker.store(worker.key(TOKENS, "r"), chunks_of(worker)) is False
    assert (server.count(14), server.count(16), server.count(17)) == (2, 2, 0)


def test_nothing_to_write_in_a_pool_is_stored_once_the_registration_is_sure(fake_server, worker_of):
    server = Server(fake_server, [{"shm_name": "not_there", "pool_size": 4096}])
    worker = worker_of(server)
    before = server.count(14)
    assert worker.store(worker.key(TOKENS, "r"), chunks_of(worker)) is True
    assert server.count(14) == before + 1


@pytest.mark.parametrize("method", ["store", "retrieve"])
def test_a_server_that_does_not_take_a_dropped_instance_again_says_why(fake_server, worker_of, method):
    worker = worker_of(Server(fake_server, [{}, {"error": "no room for instances"}]))
    more = [chunks_of(worker)] if method == "store" else []
    with pytest.raises(NotRegistered, match="no room for instances"):
        getattr(worker, method)(worker.key(TOKENS, "r"), *more)
    with pytest.raises(NotRegistered, match="call register"):
        getattr(worker, method)(worker.key(TOKENS, "r"), *more)


def test_a_stored_byte_copy_needs_no_second_look(fake_server, worker_of):
    server = Server(fake_server, prepare_store={"context": {}})
    worker = worker_of(server)
    assert worker.store(worker.key(TOKENS, "r"), chunks_of(worker)) is True
    assert (server.count(14), server.count(16), server.count(17)) == (1, 1, 1)


WRONG_RANGES = {
    "start inside a chunk": ({"start": 2}, "start 2 is inside a chunk of 4 tokens: 0 or 4 would be right"),
    "end beyond the tokens": ({"end": 12}, "end 12 is beyond the 8 token_ids: at most 8 would be right"),
    "end before start": ({"start": 8, "end": 4}, r"end must be in \[8,"),
}


@pytest.mark.parametrize("case", WRONG_RANGES)
def test_a_range_that_no_server_takes_is_a_value_error(fake_server, worker_of, case):
    server = Server(fake_server)
    worker = worker_of(server)
    changes, text = WRONG_RANGES[case]
    key = worker.key(TOKENS, "r", **changes)
    sent = len(server.fake.requests)
    with pytest.raises(ValueError, match=text):
        worker.retrieve(key)
    with pytest.raises(ValueError, match=text):
        worker.store(key, [])
    assert len(server.fake.requests) == sent


def test_a_key_of_another_model_or_of_no_worker_is_a_value_error(fake_server, worker_of):
    worker = worker_of(Server(fake_server))
    other = worker_of(Server(fake_server), world_size=2)
    for key in (other.key(TOKENS, "r"), worker.key(TOKENS, "r").for_worker(None)):
        with pytest.raises(ValueError, match="this worker of|needs a key with a worker_id"):
            worker.retrieve(key)
    with pytest.raises(TypeError, match="key must be a CacheKey"):
        worker.retrieve("r")


@pytest.mark.parametrize("tokens", [None, "12345678", b"12345678", ["1"] * 8, [1.0] * 8, [None] * 8], ids=repr)
def test_tokens_of_wrong_types_make_no_key(fake_server, worker_of, tokens):
    worker = worker_of(Server(fake_server))
    with pytest.raises(TypeError, match="token_ids"):
        worker.key(tokens, "r")


def test_tokens_out_of_range_make_no_key(fake_server, worker_of):
    worker = worker_of(Server(fake_server))
    for token in (-1, 2**32):
        with pytest.raises(ValueError, match=r"token_ids\[7\] must be in"):
            worker.key([*TOKENS[:7], token], "r")


def test_less_than_a_chunk_is_nothing_to_ask_for(fake_server, worker_of):
    server = Server(fake_server)
    worker = worker_of(server)
    sent = len(server.fake.requests)
    assert worker.store(worker.key(TOKENS[:3], "r"), []) is True
    assert worker.retrieve(worker.key(TOKENS[:3], "r")) == []
    assert len(server.fake.requests) == sent


def test_chunks_that_do_not_fit_are_refused_before_anything_is_sent(fake_server, worker_of):
    server = Server(fake_server)
    worker = worker_of(server)
    sent = len(server.fake.requests)
    with pytest.raises(ValueError, match="the range has 2 chunks, not 1"):
        worker.store(worker.key(TOKENS, "r"), chunks_of(worker, 1))
    with pytest.raises(ValueError, match="a chunk has 256 bytes, not 3"):
        worker.store(worker.key(TOKENS, "r"), [b"abc", b"abc"])
    with pytest.raises(ValueError, match="in one piece"):
        worker.store(worker.key(TOKENS, "r"), [memoryview(bytes(512))[::2]] * 2)
    with pytest.raises(TypeError):
        worker.store(worker.key(TOKENS, "r"), ["text", None])
    assert len(server.fake.requests) == sent
