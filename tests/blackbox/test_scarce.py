"""Too little of everything: shared memory, memory, descriptors, address space, names."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest
from house import INSTANCE, chunk_payload, lookup_key, poll_until, segments, shm_name
from observe import SANITIZER, cpu_seconds
from test_deaths import REGISTRATION
from zmtp import PlainClient

MIB = 1 << 20


def can(*command):
    return shutil.which(command[0]) and subprocess.run(command, capture_output=True).returncode == 0


needs_namespaces = pytest.mark.skipif(not can("unshare", "-m", "true"), reason="no mount namespaces here")


def private_shm(mebibytes, fill=0, after=""):
    """A launcher: the server sees a /dev/shm of its own."""
    script = f"mount -t tmpfs -o size={mebibytes}m none /dev/shm"
    if fill:
        script += f" && head -c {fill}M /dev/zero >/dev/shm/somebody-elses"
    return ["unshare", "-m", "sh", "-c", f'{script} {after} && exec "$@"', "sh"]


def its_shm(one):
    return pathlib.Path(f"/proc/{one.process.pid}/root/dev/shm")


def ended(one, seconds=40):
    one.judged = True
    one.process.wait(seconds)
    assert "Sanitizer" not in one.log(), one.log()
    return one.process.returncode


def big_worker(one, chunk_mib=1):
    """Chunks of whole mebibytes."""
    return one.worker(num_layers=1, hidden_dim_size=chunk_mib << 18, dtype="uint8", block_size=2, use_mla=True)


def fill_l1(worker, count, first=0):
    """Stores ``count`` prompts of one chunk; returns those that are there when all were stored."""
    data = {n: chunk_payload(n, 64) * (worker.chunk_bytes // 64) for n in range(first, first + count)}
    for n, chunk in data.items():
        worker.store(worker.key([n] * 4, f"fill-{n}"), [chunk])
        worker.client.end_session(f"fill-{n}").result(30)
    there = []
    for n, chunk in data.items():
        found = worker.retrieve(worker.key([n] * 4, f"read-{n}"))
        worker.client.end_session(f"read-{n}").result(30)
        if found is not None:
            assert found == [chunk], n
            there.append(n)
    return there


# ---- /dev/shm ----


@needs_namespaces
def test_a_dev_shm_too_small_is_refused_at_the_start(server):
    one = server("--l1-size-gb", "0.0625", shm=True, wait=False, launcher=private_shm(32))
    assert ended(one) == 1
    errors = [line for line in one.log().splitlines() if "LMCache ERROR" in line]
    assert len(errors) == 1
    assert "/dev/shm holds 33554432 bytes" in errors[0] and "--l1-size-gb" in errors[0] and "--shm-size" in errors[0]


@needs_namespaces
def test_a_dev_shm_of_exactly_the_size_is_enough(server):
    one = server("--l1-size-gb", "0.0625", shm=True, launcher=private_shm(65))
    worker = big_worker(one)
    assert worker._pool is None, "the pool is in another namespace: byte copy"
    assert len(fill_l1(worker, 40)) == 40
    worker.unregister()


@needs_namespaces
def test_a_full_dev_shm_makes_l1_smaller_and_nothing_worse(server):
    """48 of 64 MiB are somebody else's: what fits is served, and more once they have gone."""
    one = server("--l1-size-gb", "0.0625", shm=True, launcher=private_shm(68, fill=48))
    one.allow("bytes are free in /dev/shm", "No more memory for L1", "out of memory", "no memory", "not found")
    worker = big_worker(one)
    few = fill_l1(worker, 40)
    assert 8 <= len(few) <= 19
    assert one.get("/healthcheck").status == 200 and one.status()["is_healthy"] is True
    (its_shm(one) / "somebody-elses").unlink()
    poll_until(lambda: len(fill_l1(worker, 40)) == 40, "L1 grows when there is room", 60)
    worker.unregister()


@needs_namespaces
def test_a_dev_shm_that_fills_up_later(server):
    one = server("--l1-size-gb", "0.0625", "--l1-init-size-gb", "1", shm=True, launcher=private_shm(100))
    one.allow("No more memory for L1", "out of memory", "no memory", "not found")
    worker = big_worker(one)
    assert len(fill_l1(worker, 4)) == 4
    with contextlib.suppress(OSError), open(its_shm(one) / "somebody-elses", "wb") as file:
        while True:
            file.write(b"\1" * MIB)
            file.flush()
    some = fill_l1(worker, 40, first=100)
    assert some, "what has its pages is served"
    assert one.get("/healthcheck").status == 200
    worker.unregister()


@needs_namespaces
@pytest.mark.parametrize("after", ["&& mount -o remount,ro /dev/shm", "&& umount -l /dev/shm && mount --bind /proc/sys /dev/shm"])
def test_a_dev_shm_that_cannot_be_written_is_refused_by_name(server, after):
    one = server(shm=True, wait=False, launcher=private_shm(80, after=after))
    assert ended(one) == 1
    errors = [line for line in one.log().splitlines() if "LMCache ERROR" in line]
    assert len(errors) == 1 and ("--shm-name" in errors[0] or "/dev/shm" in errors[0]), one.log()


def test_a_pool_name_that_is_something_else_is_not_followed(server, tmp_path):
    name = shm_name()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path = f"/dev/shm/lmcache_l1_pool_{name}"
    os.symlink(victim, path)
    try:
        one = server("--shm-name", name, wait=False)
        assert ended(one) == 1
        assert "--shm-name" in one.log()
    finally:
        os.unlink(path)
    assert victim.read_text() == "precious"
    os.mkdir(path)
    try:
        one = server("--shm-name", name, wait=False)
        assert ended(one) == 1
    finally:
        os.rmdir(path)


def test_a_segment_of_another_program_under_our_name_is_replaced(server):
    name = shm_name()
    path = pathlib.Path(f"/dev/shm/lmcache_l1_pool_{name}")
    path.write_bytes(b"older" * 1000)
    one = server("--shm-name", name)
    assert path.stat().st_size >= 64 * MIB
    worker = one.worker()
    assert worker.transport == "shm"
    worker.unregister()


def test_a_stopped_owner_keeps_its_pool(server):
    """SIGSTOP is not death: its clients may still copy."""
    name = shm_name()
    first = server("--shm-name", name)
    first.process.send_signal(signal.SIGSTOP)
    try:
        second = server("--shm-name", name, wait=False)
        assert ended(second) == 1
        assert name in second.log() and str(first.process.pid) in second.log()
        third = server(shm=True)  # another name: sweeps, and must leave the stopped one's alone
        assert any(name in path for path in segments())
        third.judge()
    finally:
        first.process.send_signal(signal.SIGCONT)
    poll_until(lambda: "active_prefetch_jobs" in first.status(), "a whole status again")
    worker = first.worker()
    assert worker.transport == "shm"
    worker.unregister()


def test_names_that_cannot_be_pools_are_refused(server):
    for name, text in {"a/b": "must not contain '/'", "x" * 251: "longer than", "..": None, ".": None}.items():
        one = server("--shm-name", name, wait=text is None)
        if text is not None:
            assert ended(one) == 1
            assert text in one.log()
        else:
            one.judge()


# ---- memory ----


def memory_group(limit_bytes):
    """A control group with this limit, or None where we cannot make one."""
    name = f"lmcached-test-{os.getpid()}-{time.monotonic_ns()}"
    for mount, file, swap in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", None),
        ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
    ):
        group = pathlib.Path(mount) / name
        try:
            if not (pathlib.Path(mount) / "cgroup.procs").exists():
                continue
            group.mkdir()
            (group / file).write_text(str(limit_bytes))
            if swap and (group / swap).exists():
                (group / swap).write_text("0")
            return group
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
    return None


def oom_kills(group):
    for name in ("memory.oom_control", "memory.events"):
        if (group / name).exists():
            for line in (group / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


@pytest.mark.parametrize("shm", [True, False], ids=["pool", "private"])
def test_a_control_group_s_limit_is_named_and_never_reached(server, shm):
    group = memory_group((640 if SANITIZER else 320) * MIB)
    if group is None:
        pytest.skip("no memory control group can be made here")
    launcher = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
    try:
        one = server("--l1-size-gb", "2", "--l1-init-size-gb", "2", shm=shm, launcher=launcher)
        one.allow("control group", "No more memory for L1", "out of memory", "no memory", "not found")
        assert str(group) in one.log() or "control group" in one.log()
        worker = big_worker(one, 4)
        there = fill_l1(worker, 120)
        print(f"L1 took {len(there) * 4} MiB below a limit of {(640 if SANITIZER else 320)} MiB")
        assert 10 < len(there) <= 120
        assert oom_kills(group) == 0
        assert one.status()["is_healthy"] is True
        worker.unregister()
        one.judge()
        assert oom_kills(group) == 0
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        poll_until(lambda: not (group / "cgroup.procs").read_text().strip(), "an empty group")
        group.rmdir()


def test_a_size_beyond_the_machine_is_named(server):
    total = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) >> 20
    one = server("--l1-size-gb", str(total * 3 + 1), "--l1-init-size-gb", "1")
    one.allow("machine's memory", "control group")
    one.wait_log("LMCache WARNING.*(the machine's memory|control group)")
    worker = one.worker()
    assert worker.store(worker.key([1, 2, 3, 4], "a"), [chunk_payload(1, worker.chunk_bytes)])
    worker.client.end_session("a").result(30)
    worker.unregister()


@pytest.mark.skipif(bool(SANITIZER), reason="sanitizers need all of the address space")
@pytest.mark.parametrize("mebibytes", [30, 60, 90, 120, 160, 200, 260, 330, 420, 600, 1200])
def test_little_address_space_is_refused_or_enough(server, mebibytes):
    one = server(shm=True, wait=False, launcher=["prlimit", f"--as={mebibytes * MIB}"])
    one.allow(".")

    def decided():
        if one.process.poll() is not None:
            return True
        try:
            return one.get("/healthcheck").status == 200
        except OSError:
            return False

    poll_until(decided, f"a decision with {mebibytes} MiB: {one.log()}")
    if one.process.poll() is not None:
        one.judged = True
        assert one.process.returncode in (1, 127), (one.process.returncode, one.log())  # 127: no room to load it
        assert segments() == set(), "a failed start leaves nothing"
        return
    one.wait_up()
    worker = one.worker()
    stored = worker.store(worker.key([1, 2, 3, 4], "a"), [chunk_payload(1, worker.chunk_bytes)])
    assert stored in (True, False)
    with contextlib.suppress(Exception):  # 256 MiB in one frame: the connection may be refused, no more
        with PlainClient(one, timeout=10).socket as fat:
            fat.sendall(b"\x02" + (256 * MIB).to_bytes(8, "big") + b"x" * MIB)
            time.sleep(0.1)
    assert one.client().noop().result(20) == "OK"
    worker.client.end_session("a").result(10)
    worker.unregister()
    one.judge(calm=False)  # with no room for its thread a status is not whole


# ---- descriptors ----


def limited(count):
    return ["prlimit", f"--nofile={count}"]


@pytest.mark.parametrize("count", [8, 16, 24, 40, 63])
def test_too_few_descriptors_are_refused_by_number(server, count):
    one = server(shm=True, wait=False, launcher=limited(count))
    if count > 16 or not SANITIZER:
        assert ended(one) == 1, one.log()
        assert f"limit of open files is {count}" in one.log(), one.log()
    else:
        assert ended(one) != 0


def test_the_soft_limit_of_descriptors_is_raised(server):
    one = server(launcher=["prlimit", "--nofile=64:512"])
    clients = [PlainClient(one) for _ in range(200)]
    for client in clients:
        assert client.call(24) == "OK"
    for client in clients:
        client.close()


def test_more_clients_than_descriptors_wait_and_hurt_nobody(server):
    one = server(launcher=limited(64))
    one.allow("Too many open files")
    known = PlainClient(one)
    assert known.call(14, REGISTRATION)["error"] is None
    crowd = []
    for _ in range(150):
        crowd.append(socket.create_connection(("127.0.0.1", one.port)))
    waiting = 0
    for _ in range(20):
        assert known.call(22, INSTANCE) is True
        waiting += 1
        time.sleep(0.02)
    before, start = cpu_seconds(one), time.monotonic()
    time.sleep(0.5)
    print(f"while full: {(cpu_seconds(one) - before) / (time.monotonic() - start) * 100:.0f} % of a CPU")
    for connection in crowd:
        connection.close()
    poll_until(lambda: PlainClient(one).call(24) == "OK", "room for others")
    known.call(15, INSTANCE)
    known.close()


# ---- objects that do not fit ----


def test_a_chunk_larger_than_l1_is_not_stored_and_the_rest_is(server, raw):
    one = server("--l1-size-gb", "0.0625")
    one.allow(".")
    connection = raw(one)
    layout = {**REGISTRATION, "hidden_dim_size": 1 << 24, "dtype_str": "uint8", "use_mla": True, "num_layers": 2}
    assert connection.call(14, layout)["error"] is None
    from house import key_map

    for _ in range(3):
        assert connection.call(16, key_map(), INSTANCE)["context"] in ({}, {"slots": [], "chunk_indices": []})
        assert connection.call(17, key_map(), INSTANCE, b"\x80\x03].") is False
    connection.call(13, "cmpl-0-aa")
    connection.call(15, INSTANCE)
    worker = big_worker(one)
    assert len(fill_l1(worker, 20)) == 20
    worker.unregister()


def test_a_full_l1_under_noop_eviction_says_no_and_goes_on(server):
    one = server("--l1-size-gb", "0.03125", "--eviction-policy", "noop", shm=True)
    one.allow("No more memory for L1: 1 chunk of model", "no memory", "out of memory", "not found", "noop")
    worker = big_worker(one)
    there = fill_l1(worker, 64)
    one.wait_log("LMCache WARNING: No more memory for L1: 1 chunk of model m not stored")
    assert one.log().count("Stored 4 tokens") == len(there)
    assert there == list(range(len(there))) and 16 <= len(there) <= 32
    assert worker.client.lookup_chunks(lookup_key([0] * 4, "first")) == 1
    worker.client.end_session("first").result(10)
    worker.client.clear(True).result(10)
    assert len(fill_l1(worker, 16, first=500)) == 16
    worker.unregister()


def test_a_full_l1_evicts_and_stores(server):
    one = server("--l1-size-gb", "0.03125", shm=True)
    one.allow("not found")
    worker = big_worker(one)
    for first in range(0, 300, 10):
        assert set(fill_l1(worker, 10, first=first)) >= set(range(first + 5, first + 10))
    worker.unregister()


def test_everything_locked_leaves_no_room_and_comes_back(server, raw):
    one = server("--l1-size-gb", "0.03125", shm=True)
    one.allow("no memory", "out of memory", "not found", "does not fit")
    worker = big_worker(one)
    there = fill_l1(worker, 20)
    for n in there:
        assert worker.client.lookup_chunks(lookup_key([n] * 4, f"hold-{n}")) == 1
    stored = [worker.store(worker.key([n] * 4, f"late-{n}"), [bytes(worker.chunk_bytes)]) for n in range(1000, 1030)]
    assert len(fill_l1(worker, 0)) == 0 and not all(stored) or one.l1()["total_object_count"] < 50
    for n in there:
        assert worker.retrieve(worker.key([n] * 4, f"hold-{n}")) is not None, "locked ones are not evicted"
        worker.client.end_session(f"hold-{n}").result(10)
    for n in range(1000, 1030):
        worker.client.end_session(f"late-{n}").result(10)
    assert set(fill_l1(worker, 8, first=2000)) == set(range(2000, 2008))
    worker.unregister()


def test_shared_memory_with_group_access(server):
    name = shm_name()
    one = server("--shm-name", name, "--shm-mode", "0660")
    mode = os.stat(f"/dev/shm/lmcache_l1_pool_{name}").st_mode & 0o777
    assert mode == 0o660
    assert one.get("/healthcheck").status == 200
