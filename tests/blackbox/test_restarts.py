"""Stops, crashes and new beginnings."""

import os
import signal
import socket
import threading

from house import chunk_payload, free_ports, lookup_key, poll_until, segments, shm_name

from lmcached import Heartbeat, LMCacheError

TOKENS = list(range(40))


def chunks_of(worker, count=10):
    return [chunk_payload(index, worker.chunk_bytes) for index in range(count)]


def next_life(server):
    """A server of the same name and ports as one that was killed, and the worker that had stored there."""
    name = shm_name()
    first = server("--shm-name", name)
    worker = first.worker()
    assert worker.store(worker.key(TOKENS, "a"), chunks_of(worker))
    first.kill()
    first.judged = True
    second = server("--shm-name", name, port=first.port, http_port=first.http_port)
    second.clients, first.clients = first.clients, []
    return second, worker


def test_a_worker_registers_again_after_a_crash_between_two_heartbeats(server):
    _, worker = next_life(server)
    with Heartbeat(worker.client, worker.instance_id, worker.register, interval=0.1) as heartbeat:
        poll_until(lambda: heartbeat.registrations == 1 and heartbeat.healthy, "a registration after the restart")
    assert worker.transport == "shm"
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "b")) == 0  # the new life starts empty
    assert worker.store(worker.key(TOKENS, "c"), chunks_of(worker))
    assert worker.retrieve(worker.key(TOKENS, "c")) == chunks_of(worker)
    for request in ("b", "c"):
        worker.client.end_session(request).result(10)
    worker.unregister()


def test_a_worker_without_heartbeat_stores_into_the_pool_of_the_next_life(server):
    second, worker = next_life(server)
    second.allow("not registered")
    assert worker.store(worker.key(TOKENS, "a"), chunks_of(worker))
    assert worker.client.lookup_chunks(lookup_key(TOKENS, "b")) == 10
    assert worker.retrieve(worker.key(TOKENS, "b")) == chunks_of(worker)
    for request in ("a", "b"):
        worker.client.end_session(request).result(10)
    worker.unregister()


def test_an_outage_is_noticed_and_ends_with_a_registration(server):
    first = server(shm=True)
    worker = first.worker()
    with Heartbeat(worker.client, worker.instance_id, worker.register, interval=0.1, timeout=0.5) as heartbeat:
        first.clients.remove(worker.client)
        first.judge(calm=False)
        poll_until(lambda: not heartbeat.healthy, "the outage is noticed")
        second = server(shm=True, port=first.port, http_port=first.http_port)
        second.clients.append(worker.client)
        assert heartbeat.wait_healthy(30)
        poll_until(lambda: heartbeat.registrations >= 1, "a registration")
    assert second.status()["registered_non_cuda_instance_ids"] == [worker.instance_id]
    worker.unregister()


def test_requests_made_during_the_outage_are_answered_by_the_next_life(server):
    port, http_port = free_ports(2)
    first = server(port=port, http_port=http_port)
    client = first.client()
    assert client.noop().result(10) == "OK"
    first.clients.remove(client)
    first.judge(calm=False)
    futures = [client.end_session(f"r{n}") for n in range(20)]
    second = server(port=port, http_port=http_port)
    second.allow("skipping touch")
    second.clients.append(client)
    assert [future.result(30) for future in futures] == [None] * 20


def test_stale_pools_of_dead_servers_are_swept(server):
    first = server("--shm-name", shm_name())
    stale = segments()
    assert len(stale) >= 1
    first.kill()
    first.judged = True
    second = server("--shm-name", shm_name())
    assert stale.isdisjoint(segments())
    assert second.get("/healthcheck").status == 200


def test_a_living_servers_pool_is_not_taken(server):
    name = shm_name()
    first = server("--shm-name", name)
    second = server("--shm-name", name, wait=False)
    second.allow(".")
    assert second.process.wait(30) == 1
    assert name in second.log()
    assert first.get("/healthcheck").status == 200
    worker = first.worker()
    assert worker.transport == "shm"
    worker.unregister()


def test_two_servers_cannot_share_a_port(server):
    first = server()
    same_zmq = server(port=first.port, wait=False)
    same_zmq.allow(".")
    assert same_zmq.process.wait(30) == 1
    assert str(first.port) in same_zmq.log() and "ddress already in use" in same_zmq.log()
    same_http = server(http_port=first.http_port, wait=False)
    same_http.allow(".")
    assert same_http.process.wait(30) == 1
    error = [line for line in same_http.log().splitlines() if "LMCache ERROR" in line]
    assert len(error) == 1 and f"127.0.0.1:{first.http_port}: address already in use" in error[0]
    assert first.client().noop().result(10) == "OK"


def test_a_busy_http_port_is_refused_before_anything_else_happens(server):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        one = server(http_port=squatter.getsockname()[1], shm=True, wait=False)
        one.allow("address already in use")
        assert one.process.wait(30) == 1
        assert "LMCache HTTP server initialized" not in one.log()
        assert "in use; --http-port chooses another" in one.log()
        assert "LMCache HTTP server stopped" not in one.log()  # it never started


def test_start_and_stop_log_their_steps_in_order(server):
    one = server(shm=True)
    one.judge()
    steps = [
        f"Starting LMCache HTTP server on http://127.0.0.1:{one.http_port}",
        "LMCache HTTP server initialized",
        "Shutting down LMCache HTTP server...",
        "LMCache HTTP server stopped",
    ]
    places = [one.log().find(step) for step in steps]
    assert -1 not in places and places == sorted(places)


def test_sigint_stops_it_too(server):
    one = server()
    assert one.stop(signal.SIGINT) == 0


def test_a_stop_under_load_is_clean(server):
    one = server(shm=True)
    worker = one.worker()
    answers, stop = [], threading.Event()

    def load():
        while not stop.is_set():
            try:
                answers.append(worker.client.noop().result(0.5))
            except LMCacheError:
                return

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    poll_until(lambda: len(answers) > 100, "load")
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(30) == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert set(answers) == {"OK"}
    assert "LMCache HTTP server stopped" in one.log()


def test_a_second_signal_ends_it_at_once(server):
    one = server()
    one.process.send_signal(signal.SIGSTOP)
    one.process.send_signal(signal.SIGTERM)
    one.process.send_signal(signal.SIGINT)
    one.process.send_signal(signal.SIGCONT)
    assert one.process.wait(30) in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT)
    for path in segments():
        assert str(one.process.pid) not in path


def test_fifty_clients_that_die_with_locks_held_leave_nothing(server):
    from test_transfers import second

    one = server(shm=True)
    second(one, "store", tokens=TOKENS)
    rounds = one.sessions_left = 50 if os.environ.get("LMC_SOAK") else 5
    for number in range(rounds):
        second(one, "lookup-and-die", tokens=TOKENS, request_id=f"dead-{number}", expect_death=True)
    poll_until(lambda: one.l1()["read_locked_count"] == 0, "all locks come back")
    assert second(one, "retrieve", tokens=TOKENS)["chunks"] == 10


def test_the_first_reply_does_not_wait_for_the_memory(server):
    """64 GiB where the file system has it, else what fits; nothing is touched at start."""
    free = os.statvfs("/dev/shm")
    size = min(64, max(1, free.f_bavail * free.f_frsize * 9 // 10 >> 30))
    one = server("--l1-size-gb", str(size), "--l1-init-size-gb", "1", shm=True)
    one.allow("memory", "cgroup")
    assert one.client().noop().result(10) == "OK"
    assert one.l1()["memory_total_bytes"] == size << 30


