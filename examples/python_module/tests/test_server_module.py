"""The modules inside a server."""

import time

import msgpack
import zmq

from lmcached import Worker
from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_client_calls_echo(server):
    with server.client() as client:
        payload = msgpack.packb({"text": "ab", "times": 2})
        response = client.server_module_call(ServerModuleCallRequest("every_hook.echo", payload)).result(timeout=5)
        assert response.success and msgpack.unpackb(response.payload) == {"text": "abab"}
        payload = msgpack.packb({"text": "ab", "times": 0})
        response = client.server_module_call(ServerModuleCallRequest("every_hook.unknown", payload)).result(timeout=5)
        assert (response.success, response.error) == (False, "unknown server module method: every_hook.unknown")


def test_lookups_are_counted_and_served(server):
    with server.client() as client:
        worker = Worker(client, "counted", num_layers=2, hidden_dim_size=8, dtype="float16", block_size=2)
        worker.register()
        chunk = b"x" * worker.chunk_bytes
        key = worker.key([1, 2, 3, 4], request_id="counted")
        assert worker.store(key, [chunk])
        assert client.lookup_chunks(key.for_worker(None)) == 1
        assert worker.retrieve(key) == [chunk]
        client.end_session("counted").result(5)
        worker.unregister()
    assert server.status()["every_hook_lookups"]["by_model"] == {"counted": 1}
    until(lambda: server.status()["every_hook_stores"]["seen"] == 1)
    assert 'lmcached_module_store_counter_stores_total{model="counted"} 1' in server.get("/metrics")


def test_the_sidecar_answers_on_its_own_socket(server):
    sidecar = server.status()["every_hook_sidecar"]
    assert sidecar["is_healthy"] is True
    with zmq.Context() as context, context.socket(zmq.REQ) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.connect(sidecar["url"])
        asking.send(b"hello")
        assert asking.poll(10000) and asking.recv() == b"sidecar:hello"


def test_a_worker_that_pings_is_tracked(server):
    with server.client() as client:
        assert client.ping(5).result(5) is True
    until(lambda: server.status()["every_hook_workers"]["tracked"] == 1)
    assert server.status()["worker_liveness"]["tracked_instances"] >= 1
