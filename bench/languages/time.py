"""Times the works of compute.py in CPython, as time.mjs does in Node."""

import statistics
import sys
import time

import compute

BATCH_S = float(sys.argv[1] if len(sys.argv) > 1 else 200) / 1000


def batch(work):
    began, times = time.process_time(), 0
    while time.process_time() - began < BATCH_S:
        compute.handle({"work": work, "times": 1})
        times += 1
    return (time.process_time() - began) / times * 1000


for work in compute.WORKS:
    batch(work)
    print(f"{work}\t{statistics.median(batch(work) for _ in range(5))}")
