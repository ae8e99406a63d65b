"""Operations of other modules, called by a server module in Python: from `create()` until the end."""

import json
import re

from house import poll_until
from modules import answer, probe, spec
from python_packages import TRACEBACK, needs_host

pytestmark = needs_host


KEY = """
from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
from lmcache.v1.multiprocess.modules.engine_driven_transfer import EngineDrivenTransferModule
KEY = IPCCacheServerKey("m", 1, None, list(range(8)), 0, 8, "probe")
"""

EVERYWHERE = """
    module_dependencies = [LookupModule]
    def ask(self, where):
        self.inner.lookup(KEY, 1)
        trace(where, self.inner.query_prefetch_lookup_hits("probe"), self.inner.query_prefetch_status("probe"))
        self.inner.end_session("probe")
    @server_module_handler("probe.ask")
    def handle(self, payload):
        self.ask("handler")
        return b""
    def register_zmq_services(self, server):
        self.ask("registrar")
    def report_status(self):
        self.ask("status")
        return {}
    def close(self):
        self.ask("close")
"""


def test_16_what_require_gives_is_callable_in_create_and_everywhere_after(host, packages, raw):
    create = "module = cls(build_ctx)\nmodule.inner = build_ctx.require(LookupModule)\nmodule.ask('create')\nreturn module"
    one = host(packages.one_class(EVERYWHERE, create=create, more=KEY))
    answer(raw(one), "probe.ask")
    poll_until(lambda: one.status()["active_sessions"] == 0, "the session's end")
    one.judge()
    places = [line.split()[0] for line in packages.lines()]
    assert places[:2] == ["create", "registrar"] and "handler" in places and "status" in places
    assert places[-1] == "close"
    assert all(line.split()[1:] == ["0", "0"] for line in packages.lines())


def test_a_session_remembers_the_key_of_a_lookup_that_was_passed_on(host, packages):
    create = """
    session = build_ctx.engine_context.session_manager.get_or_create("probe")
    before = session.lookup_ipc_key
    build_ctx.require(LookupModule).lookup(KEY, 1)
    build_ctx.require(LookupModule).end_session("probe")
    trace("key", before, session.lookup_ipc_key is KEY)
    return cls(build_ctx)
    """
    one = host(packages.one_class("pass", create=create, more=KEY))
    assert packages.of("key") == ["None True"]
    poll_until(lambda: one.status()["active_sessions"] == 0, "the session's end")


def test_every_module_of_the_server_answers_in_create(host, packages):
    create = """
    for cls_ in (LookupModule, EngineDrivenTransferModule, ManagementModule):
        module = build_ctx.require(cls_)
        trace(type(module).__name__, isinstance(module, cls_))
    management = build_ctx.require(ManagementModule)
    trace("answers", management.noop(), management.get_chunk_size(), management.ping(None), management.get_experimental())
    trace("short", build_ctx.require(EngineDrivenTransferModule).commit_store(KEY, 1, b""))
    return cls(build_ctx)
    """
    one = host(packages.one_class("module_dependencies = [ManagementModule]", create=create, more=KEY))
    one.allow("Error handling operation commit_store: invalid")
    assert packages.lines() == [
        "LookupModule True", "EngineDrivenTransferModule True", "ManagementModule True",
        "answers OK 4 True []", "short False",
    ]  # fmt: skip


def test_a_thread_that_create_started_calls_all_the_while(host, packages, raw):
    body = """
    module_dependencies = [LookupModule]
    def run(self):
        while not self.stop.is_set():
            self.inner.query_prefetch_lookup_hits("nobody")
            self.calls += 1
            time.sleep(0.001)
    def report_status(self):
        return {"calls": self.calls}
    def close(self):
        self.stop.set()
        self.thread.join()
        trace("closed", self.calls > 0)
    """
    create = (
        "module = cls(build_ctx)\nmodule.inner, module.calls = build_ctx.require(LookupModule), 0\n"
        "module.stop, module.thread = threading.Event(), threading.Thread(target=module.run)\n"
        "module.thread.start()\nreturn module"
    )
    later = packages.one_class("pass", create="time.sleep(0.2)\nreturn cls(build_ctx)", name="Later", module="later")
    one = host(packages.one_class(body, create=create), later)
    before = one.status()["calls"]
    poll_until(lambda: one.status()["calls"] > before, "more calls")
    one.judge()
    assert packages.of("closed") == ["True"]


def test_what_is_closed_already_says_so_in_close(host, packages, raw):
    """ManagementModule is built last, and closed first, unless somebody depends on it."""
    body = """
    def touch(self):
        self.management = self.build_ctx.require(ManagementModule)
    @server_module_handler("probe.look")
    def look(self, payload):
        self.touch()
        return self.management.noop().encode()
    def close(self):
        try:
            self.management.noop()
        except RuntimeError as failure:
            trace("close", failure)
    """
    one = host(packages.one_class(body, create="return cls(build_ctx)"))
    assert answer(raw(one), "probe.look") == "OK"
    one.judge()
    assert packages.lines() == ["close ManagementModule is closed"]


def test_what_is_not_built_yet_is_named(host, packages):
    create = "try:\n    build_ctx.require(ManagementModule)\nexcept ValueError as failure:\n    trace(failure)\nreturn cls(build_ctx)"
    host(packages.one_class("pass", create=create))
    (line,) = packages.lines()
    assert line.startswith("Module 'ManagementModule' is not built yet; built so far: ['EngineDrivenTransferModule', ")


def test_operations_of_a_native_module_and_what_it_replaced_answer_in_create(host, packages):
    native = probe("NativeModule", override="get_chunk_size", depends=["ManagementModule"])
    create = """
    trace("outside", build_ctx.require("NativeModule").get_chunk_size())
    trace("own", build_ctx.require(ManagementModule).get_chunk_size())
    try:
        build_ctx.require("NativeModule").lookup
    except AttributeError as failure:
        trace(failure)
    return cls(build_ctx)
    """
    module = packages.one_class('module_dependencies = ["NativeModule", ManagementModule]', create=create)
    one = host(spec(native, trace=str(packages.folder / "native")), module)
    assert packages.of("own") == ["4"]
    assert len(packages.of("outside")) == 1
    assert "native module NativeModule has no operation 'lookup'" in packages.lines()
    assert re.search(r"NativeModule replaces ManagementModule", one.log())


def test_an_operation_that_the_server_does_not_have_says_so(host, packages):
    create = """
    from lmcache.v1.multiprocess.modules.p2p_controller import P2PController
    try:
        build_ctx.require(P2PController).p2p_unlock_objects([])
    except NotImplementedError as failure:
        trace(failure)
    return cls(build_ctx)
    """
    host(packages.one_class("pass", create=create))
    assert packages.lines() == ["P2PController.p2p_unlock_objects is not available: this server does not have it"]


def test_a_wrong_argument_is_told_by_name(host, packages):
    create = """
    for arguments in (("r", 1, 2), (7,)):
        try:
            build_ctx.require(LookupModule).query_prefetch_status(*arguments)
        except Exception as failure:
            trace(type(failure).__name__, failure)
    try:
        build_ctx.require(LookupModule).lookup(KEY, "one")
    except Exception as failure:
        trace(type(failure).__name__, failure)
    return cls(build_ctx)
    """
    one = host(packages.one_class("pass", create=create, more=KEY))
    one.allow(TRACEBACK)
    lines = packages.lines()
    assert [line.split()[0] for line in lines] == ["TypeError", "TypeError", "TypeError"], json.dumps(lines)


def test_30_liveness_targets_are_those_of_the_server_and_of_packages_in_order(host, packages, raw):
    body = """
    module_dependencies = [EngineDrivenTransferModule]
    def touch_instance(self, instance_id): pass
    def reap_stale_instances(self, timeout_s, grace_s): return []
    def tracked_instance_count(self): return 5
    def drop_instance_state(self, instance_id): pass
    @server_module_handler("probe.targets")
    def targets(self, payload):
        return str([(type(one).__name__, one.tracked_instance_count()) for one in self.seen]).encode()
    @server_module_handler("probe.reap")
    def reap(self, payload):
        target = self.seen[0]
        target.touch_instance(int(payload))
        reaped = [target.reap_stale_instances(1000.0, 2000.0), target.reap_stale_instances(1e-9, 1e-9)]
        for instance_id in reaped[1]:
            target.drop_instance_state(instance_id)
        return str(reaped).encode()
    """
    create = "module = cls(build_ctx)\nmodule.seen = build_ctx.liveness_targets\ntrace(len(module.seen))\nreturn module"
    more = KEY + """
class Mine(EngineDrivenTransferModule):
    @classmethod
    def create(cls, build_ctx):
        return cls(build_ctx.engine_context)
"""
    one = host(packages.one_class(body, create=create, more=more))
    worker = one.worker()
    client = raw(one)
    assert packages.lines() == ["2"]  # at that time
    assert answer(client, "probe.targets") == "[('EngineDrivenTransferModule', 1), ('Mine', 1), ('Probe', 5)]"
    assert one.status()["worker_liveness"]["tracked_instances"] == 6  # the worker once, and the probe's
    one.allow(f"{worker.instance_id}")
    assert answer(client, "probe.reap", str(worker.instance_id).encode()) == f"[[], [{worker.instance_id}]]"
    assert one.status()["worker_liveness"]["tracked_instances"] == 5
