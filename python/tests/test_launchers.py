"""The modules under whose names existing scripts start the server."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

PYTHON_FOLDER = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def program(tmp_path):
    """Prints what it was started with."""
    file = tmp_path / "lmcached"
    file.write_text('#!/bin/sh\nfor word in "$0" "$@"; do echo "$word"; done\n')
    file.chmod(0o755)
    return file


def run(module, *words, **environment):
    inherited = {name: value for name, value in os.environ.items() if name != "LMCACHED_BIN"}
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True, text=True, env={**inherited, "PYTHONPATH": str(PYTHON_FOLDER), **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    "module, added",
    [
        ("lmcache.v1.multiprocess.http_server", ["server"]),
        ("lmcache.v1.multiprocess.server", ["server", "--no-http"]),
        ("lmcache.v1.mp_coordinator", ["coordinator"]),
    ],
)
def test_a_launcher_becomes_the_program(program, module, added):
    done = run(module, "--port", "1", "a b", LMCACHED_BIN=str(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(program), *added, "--port", "1", "a b"]


@pytest.mark.parametrize("libdir", ["lib", "lib/x86_64-linux-gnu"])
def test_an_installed_package_finds_the_program_installed_with_it(program, tmp_path, libdir):
    packages = tmp_path / "prefix" / libdir / "lmcached" / "python"
    shutil.copytree(PYTHON_FOLDER / "lmcache", packages / "lmcache")
    (tmp_path / "prefix" / "bin").mkdir()
    beside = program.rename(tmp_path / "prefix" / "bin" / "lmcached")
    done = run("lmcache.v1.multiprocess.server", PYTHONPATH=str(packages), PATH="/nowhere:/bin:/usr/bin")
    assert done.stdout.splitlines() == [str(beside), "server", "--no-http"], done.stderr


def test_a_program_that_is_not_there_is_named(tmp_path):
    done = run("lmcache.v1.multiprocess.server", LMCACHED_BIN=str(tmp_path / "none"))
    assert done.returncode == 1 and f"{tmp_path / 'none'} cannot be started" in done.stderr


def test_other_modules_of_that_name_stay_importable(tmp_path):
    other = tmp_path / "lmcache" / "v1"
    other.mkdir(parents=True)
    for folder in (other.parent, other):
        (folder / "__init__.py").write_text("")
    (other / "elsewhere.py").write_text("VALUE = 7\n")
    code = "import lmcache.v1.elsewhere as e, lmcache.v1.multiprocess.server; print(e.VALUE)"
    environment = {**os.environ, "PYTHONPATH": f"{PYTHON_FOLDER}{os.pathsep}{tmp_path}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "7\n", done.stderr
