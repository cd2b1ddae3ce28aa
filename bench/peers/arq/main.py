"""The peer arq: https://github.com/python-arq/arq

Default settings, and tuned: 100 jobs at once, Redis polled every 10 ms, results not kept.

The worker runs in an event loop of its own thread, so that the bench's waits do not delay it.
"""

import asyncio
import threading
import time
from datetime import datetime, timezone

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

import protocol

task = protocol.Task()
redis = RedisSettings(host=task.host, port=task.port)


async def bench(_context, job):
    task.handle(job)


def serve():
    """Starts the worker."""
    tuned = {"max_jobs": 100, "poll_delay": 0.01, "keep_result": 0} if task.tuned else {}

    async def run():
        await Worker([bench], redis_settings=redis, handle_signals=False, **tuned).async_run()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()


async def pushing(work):
    pool = await create_pool(redis)

    async def push(number, due_ms=None):
        due = {} if due_ms is None else {"_defer_until": datetime.fromtimestamp(due_ms / 1000, timezone.utc)}
        await pool.enqueue_job("bench", protocol.payload(number, due_ms or protocol.now_ms()), **due)

    await work(push)
    await pool.aclose()


async def spread(push):
    numbers = iter(range(task.jobs))

    async def one():
        for number in numbers:
            await push(number)

    await asyncio.gather(*(one() for _ in range(protocol.IN_FLIGHT)))


async def one_by_one(push):
    for number in range(task.jobs):
        await push(number)


def timed(work):
    task.ready()
    begin = time.monotonic()
    asyncio.run(pushing(work))
    protocol.reply({"seconds": time.monotonic() - begin})
    task.wait_for_end()


def warm_up():
    serve()
    asyncio.run(pushing(lambda push: push(-1)))
    if not task.warm.wait(60):
        raise SystemExit("the first job was not handled within a minute")


def due():
    warm_up()
    task.ready()
    begin_ms = protocol.now_ms() + protocol.LEAD_MS
    asyncio.run(pushing(lambda push: spread(lambda number: push(number, task.due_ms(begin_ms, number)))))
    if protocol.now_ms() > begin_ms:
        protocol.unsupported("the pushes did not finish before the first job fell due")
    task.finish(begin_ms * 1000, True)


def drain():
    asyncio.run(pushing(spread))
    task.ready()
    begin_us = protocol.now_us()
    serve()
    task.finish(begin_us, False)


def idle():
    warm_up()
    task.ready()
    task.wait_for_end()


TASKS = {
    "push-one": lambda: timed(one_by_one),
    "push-flight": lambda: timed(spread),
    "push-batch": lambda: protocol.unsupported("it has no batches"),
    "drain": drain,
    "due": due,
    "idle": idle,
}
TASKS.get(task.name, lambda: protocol.unsupported("unknown task"))()
