"""Finds the ``lmcached`` program and becomes it."""

import os
import shutil
import sys


def find():
    """``LMCACHED_BIN``, the build of this checkout, or what ``PATH`` has; ``None``: nowhere."""
    named = os.environ.get("LMCACHED_BIN")
    if named:
        return named
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = os.path.join(root, "build", "lmcached")
    if os.path.isfile(built) and os.access(built, os.X_OK):
        return built
    return shutil.which("lmcached")


def become(*words):
    program = find()
    if program is None:
        sys.exit("lmcached is not installed: build it (make), put it on PATH, or set LMCACHED_BIN")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(program, [program, *words, *sys.argv[1:]])
    except OSError as failure:
        sys.exit(f"{program} cannot be started: {failure.strerror}")
