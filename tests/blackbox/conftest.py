"""Fixtures of the house tests. Every server that a test starts is judged when the test ends: exit
status 0 after SIGTERM, no unexpected warning, no sanitizer report, nothing held or left behind."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from house import BINARY, RawClient, Server, segments, shm_name  # noqa: E402
from modules import Trace, failed_start, flags, spec  # noqa: E402
from python_packages import Packages  # noqa: E402

BASE_FLAGS = [
    "--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--chunk-size", "4",
    "--session-lease-seconds", "1", "--disconnect-lease-seconds", "1",
]  # fmt: skip


def pytest_collection_modifyitems(config, items):
    if not os.path.exists(BINARY):
        skip = pytest.mark.skip(reason=f"no server at {BINARY}")
        for item in items:
            item.add_marker(skip)


@pytest.fixture
def server(tmp_path, request):
    """``server(*flags, shm=True, ...)`` starts one and waits until it serves. Flags that are
    given replace the defaults of the same name."""
    started = []
    segments_before = segments()

    def start(*flags, shm=False, bare=False, wait=True, **options):
        names = {flag for flag in flags if flag.startswith("--")}
        defaults = []
        if not bare:
            for name, value in zip(BASE_FLAGS[::2], BASE_FLAGS[1::2]):
                if name not in names:
                    defaults += [name, value]
            if shm and "--shm-name" not in names:
                defaults += ["--shm-name", shm_name()]
        one = Server(tmp_path / f"server-{len(started)}.log", [*defaults, *map(str, flags)], **options)
        started.append(one)
        one.start()
        return one.wait_up() if wait else one

    yield start
    failures = []
    for one in started:
        try:
            if not one.judged:
                one.judge()
        except AssertionError as failure:
            failures.append(str(failure))
        finally:
            one.close_clients()
            if one.process.poll() is None:
                one.kill()
    left = segments() - segments_before
    for path in left:
        os.unlink(path)
    if left:
        failures.append(f"shared memory left behind: {sorted(left)}")
    assert not failures, "\n".join(failures)


@pytest.fixture
def raw():
    """``raw(server)`` opens a connection that sends frames as they are given."""
    opened = []

    def connect(server):
        opened.append(RawClient(server.url))
        server.clients.append(opened[-1])
        return opened[-1]

    return connect


@pytest.fixture
def packages(tmp_path):
    """Packages of Python modules that this test writes."""
    return Packages(tmp_path / "packages")


@pytest.fixture
def host(server, packages):
    """``host(module, ..., flags)`` starts a server with modules of this test's packages."""

    def start(*modules, more=(), environment=None, **options):
        specs = [m if isinstance(m, dict) else spec(m) for m in modules]
        return server(*more, *flags(*specs), environment=packages.environment(**environment or {}), **options)

    return start


@pytest.fixture
def trace(tmp_path):
    """What native probes say has happened."""
    return Trace(tmp_path)


@pytest.fixture
def refused(tmp_path, packages, monkeypatch):
    """The log of a server that must not start with these modules in Python."""

    def start(*modules, more=(), environment=None):
        for name, value in packages.environment(**environment or {}).items():
            monkeypatch.setenv(name, value)
        return failed_start(tmp_path, *(m if isinstance(m, dict) else spec(m) for m in modules), more=more)

    return start
