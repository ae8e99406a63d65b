"""What the tests of Python server modules share."""

import json
import os
import pathlib
import textwrap

import pytest

from house import BINARY, ROOT

GENERATIONS = ROOT / "tests" / "python_generations"
HEAD = """\
from lmcache.logging import init_logger
from lmcache.v1.multiprocess.engine_module import DiscoverableModule
from lmcache.v1.multiprocess.ext_server_module import server_module_handler
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

logger = init_logger(__name__)


class Base(DiscoverableModule):
    def __init__(self, build_ctx):
        self.build_ctx = build_ctx
        self.config = build_ctx.config_for(type(self))

    @classmethod
    def create(cls, build_ctx):
        return cls(build_ctx) if cls is not Base else None

    @property
    def context(self):
        return self.build_ctx.engine_context

    def report_status(self):
        return {}

    def close(self):
        pass


"""


def has_host():
    folder = pathlib.Path(BINARY).parent
    return any((folder / place / "lmcached-pyhost.so").exists() for place in (".", "../lib/lmcached"))


needs_host = pytest.mark.skipif(not has_host(), reason="the server was built without the Python host")


def spec(module_path, config=None, **more):
    return json.dumps({"module_path": module_path, "config": config or {}, **more})


def flags(*specs):
    """``--server-module`` for each; a name stands for a module without configuration."""
    words = []
    for one in specs:
        words += ["--server-module", one if one.startswith("{") else spec(one)]
    return words


def environment(*folders):
    path = os.pathsep.join(map(str, folders))
    return {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


class Plugins:
    """Modules that a test writes."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, source, head=True):
        (self.folder / f"{name}.py").write_text((HEAD if head else "") + textwrap.dedent(source))
        return name

    @property
    def environment(self):
        return environment(self.folder)


def envelope(client, method, payload=b""):
    """(success, payload, error) of a server module call."""
    from lmcached import ServerModuleCallRequest

    answer = client.server_module_call(ServerModuleCallRequest(method, payload)).result(30)
    return answer.success, answer.payload, answer.error
