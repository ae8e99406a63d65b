"""``python -m lmcache.v1.multiprocess.http_server``: the cache server with its HTTP API."""

from lmcache._program import become

if __name__ == "__main__":
    become("server")
