"""The modules without a server: the package lmcache has the types, a test brings the rest."""

import msgpack
import pytest
from every_hook.echo import EchoModule
from every_hook.lookups import CountingLookups
from every_hook.sidecar import SidecarModule
from every_hook.workers import WorkerNotes

from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
from lmcache.v1.multiprocess.engine_module import ModuleBuildContext
from lmcache.v1.multiprocess.modules.lookup import LookupModule


class FakeLookups(LookupModule):
    def __init__(self):
        self.keys = []

    def lookup(self, key, tp_size):
        self.keys.append(key)


def test_echo_repeats_the_text():
    module = EchoModule.create(ModuleBuildContext())
    assert msgpack.unpackb(module.echo(msgpack.packb({"text": "ab", "times": 3}))) == {"text": "ababab"}
    with pytest.raises(ValueError, match="times is 0"):
        module.echo(msgpack.packb({"text": "ab", "times": 0}))


def test_lookups_are_counted_and_passed_on():
    lookups, build_ctx = FakeLookups(), ModuleBuildContext()
    build_ctx.register(lookups)
    module = CountingLookups.create(build_ctx)
    key = IPCCacheServerKey("m", 1, None, [1], 0, 1, "r")
    module.lookup(key, 1)
    assert lookups.keys == [key] and module.report_status()["every_hook_lookups"]["by_model"] == {"m": 1}


def test_without_an_url_there_is_no_sidecar():
    assert SidecarModule.create(ModuleBuildContext()) is None


def test_a_worker_that_is_silent_is_reaped():
    module = WorkerNotes.create(ModuleBuildContext())
    module.touch_instance(7)
    assert module.reap_stale_instances(1000.0, 2000.0) == [] and module.tracked_instance_count() == 1
    assert module.reap_stale_instances(-1.0, 2000.0) == [7] and module.tracked_instance_count() == 0
