"""``python -m lmcache.v1.multiprocess.server``: the cache server without HTTP."""

from lmcache._program import become

if __name__ == "__main__":
    become("server", "--no-http")
