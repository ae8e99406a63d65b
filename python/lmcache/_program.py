"""Finds the ``lmcached`` program and becomes it."""

import os
import shutil
import sys


def find():
    """``LMCACHED_BIN``, the build of this checkout, the installation that this package is part of, or
    what ``PATH`` has; ``None``: nowhere."""
    named = os.environ.get("LMCACHED_BIN")
    if named:
        return named
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for program in (os.path.join(root, "build", "lmcached"), *installed(root)):
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return shutil.which("lmcached")


def installed(root):
    """Where ``make install`` put it: the packages are in ``PREFIX/lib/lmcached/python``, and some
    systems have one folder more below ``lib``."""
    if os.path.basename(root) != "lmcached":
        return []
    above = os.path.dirname(os.path.dirname(root))
    return [os.path.join(prefix, "bin", "lmcached") for prefix in (above, os.path.dirname(above))]


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
