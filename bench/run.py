#!/usr/bin/python3
"""Measures the server beside its floors and says which bars are met (bench/README.md)."""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import sys
import time

import measure
import modules
import python_modules
from figures import Report, print_table
from programs import ROOT, Place, temporary_folder

SECTIONS = {
    "calls": ("Small calls (connections x outstanding)", measure.calls),
    "lookup": ("Lookups of a 32,768-token prompt", measure.lookups),
    "hash": ("Work of a lookup by itself", measure.hashing),
    "shm": ("Shared memory", measure.shared_memory),
    "copy": ("Byte copy", measure.byte_copy),
    "ping": ("Pings beside others", measure.pings),
    "start": ("Start", measure.start),
    "memory": ("Memory and idle time", measure.held_memory),
    "objects": ("Many objects", measure.objects),
    "modules": ("Server modules", modules.modules),
    "python": ("Server modules in Python", python_modules.python_modules),
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three short rounds instead of seven")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="NAME", help=", ".join(SECTIONS))
    parser.add_argument("--json", metavar="FILE", help="write every round of every figure there")
    parser.add_argument("--rounds", type=int, help="rounds of each figure")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder (default: build)")
    return parser.parse_args()


def machine() -> dict:
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> int:
    options = parse()
    rounds = options.rounds or (3 if options.quick else 7)
    missing = [name for name in ("lmcached", "bench/load") if not (options.build / name).exists()]
    if missing:
        print(f"bench: {options.build / missing[0]} is not built (make)", file=sys.stderr)
        return 1
    report = Report(rounds, machine())
    if report.machine["load_before"] > 0.5:
        print("bench: the machine is busy; figures will scatter", file=sys.stderr)
    failed = False
    with temporary_folder() as folder:
        seconds = 0.2 if options.quick else 0.4
        run = measure.Run(Place(options.build, folder), rounds, seconds, options.quick)
        for name in options.only or SECTIONS:
            title, section = SECTIONS[name]
            try:
                report.sections[name] = section(run)
            except RuntimeError as error:
                print(f"bench: {name}: {error}", file=sys.stderr)
                failed = True
                continue
            print_table(title, report.sections[name], sys.stdout)
    report.print_summary(sys.stdout)
    if options.json:
        report.write_json(options.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
