"""The design document's own example: the class as it is written there, its sidecar on `server.ctx`, and its
client. With msgspec where that is installed, with a stand-in for it anywhere, and with plain MessagePack."""

import os
import subprocess

import pytest
import zmq

from house import ROOT, free_ports
from msgspec_stand_in import SOURCE
from python_house import environment, flags, needs_host, spec

pytestmark = needs_host
PYTHON = "/usr/bin/python3"  # the one that the host is built with

MODULE = '''
import threading

{imports}

from lmcache.v1.multiprocess.engine_module import DiscoverableModule
from lmcache.v1.multiprocess.ext_server_module import server_module_handler


class MyZmqEchoService:
    def __init__(self, context, bind_url):
        self._context, self._url = context, bind_url

    def start(self):
        import zmq
        self._socket = self._context.socket(zmq.REP)
        self._socket.bind(self._url)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stopping.is_set():
            if self._socket.poll(20):
                self._socket.send(b"sidecar:" + self._socket.recv())

    def stop(self):
        self._stopping.set()
        self._thread.join()
        self._socket.close()


{classes}


class MyServerModule(DiscoverableModule):
    @classmethod
    def create(cls, build_ctx):
        self = cls()
        self.context = build_ctx.engine_context
        self.config = build_ctx.config_for(cls)
        return self

    def report_status(self):
        return {{"my_package": {{"is_healthy": True, "mode": self.config["mode"]}}}}

    def close(self):
        self.echo_service.stop()

    @server_module_handler("my_package.echo")
    def echo(self, payload: bytes) -> bytes:
        {body}

    def register_zmq_services(self, server) -> None:
        self.echo_service = MyZmqEchoService(
            context=server.ctx,
            bind_url="tcp://127.0.0.1:{port}",
        )
        self.echo_service.start()
'''

WITH_MSGSPEC = {
    "imports": "import msgspec",
    "classes": "class EchoRequest(msgspec.Struct):\n    text: str\n\n\nclass EchoResponse(msgspec.Struct):\n    text: str",
    "body": "request = msgspec.msgpack.decode(payload, type=EchoRequest)\n"
    "        return msgspec.msgpack.encode(EchoResponse(text=request.text))",
}
PLAIN = {
    "imports": "import msgpack",
    "classes": "",
    "body": 'request = msgpack.unpackb(payload)\n        return msgpack.packb({"text": request["text"]})',
}

CLIENT = """
import sys

import msgspec

from lmcached import Client
from lmcache.v1.multiprocess.protocols.server_module import (
    ServerModuleCallRequest,
)


class EchoRequest(msgspec.Struct):
    text: str


class EchoResponse(msgspec.Struct):
    text: str


client = Client(sys.argv[1])

payload = msgspec.msgpack.encode(EchoRequest(text="hello"))
response = client.server_module_call(
    ServerModuleCallRequest(method="my_package.echo", payload=payload)
).result(timeout=5)
if not response.success:
    raise RuntimeError(response.error)
echo = msgspec.msgpack.decode(response.payload, type=EchoResponse)

assert echo.text == "hello", echo
failed = client.server_module_call(ServerModuleCallRequest("my_package.echo", msgspec.msgpack.encode({"text": 3}))).result(5)
print(failed.success, failed.payload, failed.error)
assert issubclass(ServerModuleCallRequest, msgspec.Struct)
client.close()
"""

PLAIN_CLIENT = """
import sys

import msgpack

from lmcached import Client
from lmcache.v1.multiprocess.protocols.server_module import (
    ServerModuleCallRequest,
)

client = Client(sys.argv[1])

payload = msgpack.packb({"text": "hello"})
response = client.server_module_call(
    ServerModuleCallRequest(method="my_package.echo", payload=payload)
).result(timeout=5)
if not response.success:
    raise RuntimeError(response.error)
assert msgpack.unpackb(response.payload) == {"text": "hello"}
client.close()
"""


def has(library):
    return subprocess.run([PYTHON, "-c", f"import {library}"], capture_output=True).returncode == 0


@pytest.fixture(params=["msgspec", "stand-in", "plain"])
def example(request, tmp_path, server):
    """(server, client program, its environment, the sidecar's URL)"""
    if request.param == "msgspec" and not has("msgspec"):
        pytest.skip("msgspec is not installed for the Python that the host is built with")
    (port,) = free_ports(1)
    plain = request.param == "plain"
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("")
    source = MODULE.format(port=port, **(PLAIN if plain else WITH_MSGSPEC))
    (tmp_path / "my_package" / "server_module.py").write_text(source)
    if request.param == "stand-in":
        (tmp_path / "msgspec.py").write_text(SOURCE)
    config = {"mode": "shadow"}
    one = server(*flags(spec("my_package.server_module", config)), environment=environment(tmp_path))
    return one, PLAIN_CLIENT if plain else CLIENT, environment(tmp_path, ROOT / "python"), f"tcp://127.0.0.1:{port}"


def test_the_example_of_the_design_document_runs_as_written(example):
    one, client, given, url = example
    if "msgspec" in client:
        one.allow("my_package.echo failed", r"\(python:0:lmcache\.")
    asked = subprocess.run(
        [PYTHON, "-c", client, one.url], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    if "msgspec" in client:
        assert asked.stdout.startswith("False b'' Expected `str`"), asked.stdout
    assert one.status()["my_package"] == {"is_healthy": True, "mode": "shadow"}
    with zmq.Context() as context, context.socket(zmq.REQ) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.connect(url)
        asking.send(b"x")
        assert asking.poll(10000) and asking.recv() == b"sidecar:x"
    one.judge()  # the sidecar, too, has ended
    with zmq.Context() as context, context.socket(zmq.REP) as bound:
        bound.bind(url)


MESSAGES = """
import msgspec
from lmcache.v1.multiprocess.custom_types import (
    IPCCacheServerKey, NO_SESSION_END_INFO, PrepareStoreResponse, RegisterEngineDrivenContextPayload,
    RegisterEngineDrivenContextResponse, SessionEndInfo, CBUnifiedLookupResult)
from lmcache.v1.multiprocess.protocols.server_module import ServerModuleCallRequest, ServerModuleCallResponse
from lmcache.v1.distributed.api import ObjectKey, PrefetchRequestSpec
from lmcache.v1.distributed.transfer_channel.api import TransferChannelAddress

for cls in (ServerModuleCallRequest, ServerModuleCallResponse, SessionEndInfo, PrepareStoreResponse,
            RegisterEngineDrivenContextPayload, RegisterEngineDrivenContextResponse, CBUnifiedLookupResult,
            PrefetchRequestSpec, TransferChannelAddress):
    assert issubclass(cls, msgspec.Struct), cls
assert ServerModuleCallRequest.__struct_fields__ == ("method", "payload")
golden = bytes.fromhex("82a66d6574686f64a966616b652e6563686fa77061796c6f6164c40568656c6c6f")
assert msgspec.msgpack.encode(ServerModuleCallRequest("fake.echo", b"hello")) == golden
assert msgspec.msgpack.decode(golden, type=ServerModuleCallRequest) == ServerModuleCallRequest("fake.echo", b"hello")
assert SessionEndInfo() == NO_SESSION_END_INFO and hash(NO_SESSION_END_INFO) == hash(SessionEndInfo())
assert RegisterEngineDrivenContextPayload(1, "m", 1, 2, 3, 4, "float16", False).engine_group_infos == []
assert PrefetchRequestSpec([[ObjectKey(b"h", "m", 0)]]).request_id == ""
"""


@pytest.mark.parametrize("library", ["msgspec", "stand-in"])
def test_messages_are_structs_of_msgspec_where_it_is_importable(tmp_path, library):
    if library == "msgspec" and not has("msgspec"):
        pytest.skip("msgspec is not installed for the Python that the host is built with")
    if library == "stand-in":
        (tmp_path / "msgspec.py").write_text(SOURCE)
    given = {**os.environ, **environment(tmp_path, ROOT / "python")}
    done = subprocess.run([PYTHON, "-c", MESSAGES], env=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
