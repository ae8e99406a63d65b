"""Server modules in Python for tests of the host: packages written by the test that uses them."""

import os
import pathlib
import re
import textwrap

import pytest

from house import BINARY, ROOT

HOST = pathlib.Path(BINARY).parent / "lmcached-pyhost.so"

needs_host = pytest.mark.skipif(
    not HOST.exists() and not list(pathlib.Path(BINARY).parent.glob("../lib*/**/lmcached-pyhost.so")),
    reason="the Python host is not built",
)

TRACEBACK = r"\(python:0:lmcache\."  # lines of one, for Server.allow()

# Members of modules: methods that answer and fail; a whole liveness target.
FAKE = """
@server_module_handler("fake.echo")
def echo(self, payload: bytes) -> bytes:
    return b"echo:" + payload
@server_module_handler("fake.fail")
def fail(self, payload: bytes) -> bytes:
    raise RuntimeError("boom")
"""
FOUR = """
def touch_instance(self, instance_id): trace("touch", instance_id)
def reap_stale_instances(self, reap_timeout_s, registration_grace_s):
    trace("reap", reap_timeout_s, registration_grace_s)
    return [77]
def tracked_instance_count(self): return 3
"""
DROP = 'def drop_instance_state(self, instance_id): trace("drop", instance_id)\n'

# A side service that echoes until self.stop is set; its last lines are the test's.
SIDECAR = """
def register_zmq_services(self, server):
    import zmq
    self.stop, self.socket = threading.Event(), server.ctx.socket(zmq.REP)
    self.socket.bind_to_random_port("tcp://127.0.0.1")
    self.thread = threading.Thread(target=self.serve)
    self.thread.start()
def serve(self):
    while not self.stop.is_set():
        if self.socket.poll(5):
            self.socket.send(self.socket.recv())
"""

# What every module has; a test adds what it is about. `trace(...)` writes a line that the test reads.
HEAD = '''
import os, sys, threading, time
from lmcache.v1.multiprocess.engine_module import DiscoverableModule
from lmcache.v1.multiprocess.ext_server_module import server_module_handler
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler
from lmcache.v1.multiprocess.modules.lookup import LookupModule
from lmcache.v1.multiprocess.modules.management import ManagementModule

def trace(*words):
    with open(os.environ["TRACE"], "a") as out:
        out.write(" ".join(map(str, words)) + "\\n")

class Base(DiscoverableModule):
    def __init__(self, build_ctx):
        self.build_ctx, self._context = build_ctx, build_ctx.engine_context
    @property
    def context(self):
        return self._context
    def report_status(self):
        return {}
    def close(self):
        trace("close", type(self).__name__)

def made(cls, build_ctx):
    trace("create", cls.__name__)
    return cls(build_ctx)
'''


class Packages:
    """A folder on PYTHONPATH with the packages of one test."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.trace_path = self.folder / "trace"

    def write(self, name, source, head=HEAD):
        path = self.folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + textwrap.dedent(source))
        return name

    def one_class(self, body, name="Probe", create="return made(cls, build_ctx)", module="probe", more=""):
        """A module with one class; `body` are its members, `more` stands before it."""
        source = textwrap.dedent(more) + f"\nclass {name}(Base):\n    @classmethod\n    def create(cls, build_ctx):\n"
        source += textwrap.indent(textwrap.dedent(create), " " * 8) + "\n"
        source += textwrap.indent(textwrap.dedent(body), " " * 4)
        return self.write(module, source)

    def environment(self, **more):
        kept = {name: "" for name in ("VIRTUAL_ENV", "PYTHONHOME") if name in os.environ}
        sanitizers = {
            "LSAN_OPTIONS": f"suppressions={ROOT}/tests/support/lsan.supp:print_suppressions=0",
            "ASAN_OPTIONS": "detect_leaks=1:exitcode=99",
        }
        paths = {"PYTHONPATH": str(self.folder), "TRACE": str(self.trace_path)}
        return {**kept, **paths, **sanitizers, **more}

    def lines(self):
        return self.trace_path.read_text().splitlines() if self.trace_path.exists() else []

    def of(self, what):
        """What was traced under one word."""
        return [line.partition(" ")[2] for line in self.lines() if line.split(" ", 1)[0] == what]


def texts(log, level="ERROR"):
    """The messages of one level in a log."""
    return [m.group(1) for m in re.finditer(rf"LMCache {level}: (.*) \([^()]*:\d+:[^()]*\)$", log, re.M)]
