"""``python -m lmcache.v1.mp_coordinator``: the fleet's registry."""

from lmcache._program import become

if __name__ == "__main__":
    become("coordinator")
