"""What a service manager hears (sd_notify): READY, STATUS, WATCHDOG, STOPPING."""

import socket

import pytest
from house import free_ports, poll_until


@pytest.fixture
def manager(tmp_path):
    """A socket as a service manager's, and the environment that names it."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(path)
        ear.settimeout(20)
        yield ear, {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"}


def test_ready_comes_when_every_door_is_open_then_beats_then_stopping(server, manager):
    ear, environment = manager
    one = server(environment=environment, wait=False)
    assert ear.recv(500) == f"READY=1\nSTATUS=serving on {one.url}".encode()
    assert one.get("/healthcheck").status == 200
    assert one.client().noop().result(30) == "OK"
    one.wait_up()
    for _ in range(4):
        assert ear.recv(500) == b"WATCHDOG=1"
    one.judge()
    told = poll_until(lambda: (said := ear.recv(500)) != b"WATCHDOG=1" and said, "STOPPING")
    assert told == b"STOPPING=1\nSTATUS=stopping"


def test_a_start_that_fails_is_never_ready(server, manager):
    ear, environment = manager
    with socket.socket() as holder:
        port = free_ports(1)[0]
        holder.bind(("127.0.0.1", port))
        holder.listen()
        one = server(environment=environment, http_port=port, wait=False)
        one.judged = True
        assert one.process.wait(30) == 1
    ear.setblocking(False)
    told = []
    with pytest.raises(BlockingIOError):
        while True:
            told.append(ear.recv(500))
    assert not any(b"READY" in text for text in told)
