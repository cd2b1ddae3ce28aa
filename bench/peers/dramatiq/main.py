"""The peer dramatiq: https://dramatiq.io

Default settings of a worker process, and tuned: 16 threads, 256 messages prefetched, no retries and no time limits.

It runs one process, like the other peers, because the records of handled jobs are in its memory; on the command line
dramatiq starts one for each core.
"""

import os
import threading
import time

import protocol

task = protocol.Task()
if task.tuned:
    # Read when the module is loaded.
    os.environ["dramatiq_queue_prefetch"] = "256"

import dramatiq  # noqa: E402
from dramatiq.brokers.redis import RedisBroker  # noqa: E402
from dramatiq.middleware import AgeLimit, Callbacks, Pipelines, ShutdownNotifications  # noqa: E402

middleware = {"middleware": [AgeLimit(), Callbacks(), Pipelines(), ShutdownNotifications()]} if task.tuned else {}
broker = RedisBroker(host=task.host, port=task.port, **middleware)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench")
def bench(job):
    task.handle(job)


def serve():
    """Starts the worker: 8 threads by default."""
    worker = dramatiq.Worker(broker, worker_threads=16) if task.tuned else dramatiq.Worker(broker)
    worker.start()


def push(number, due_ms=None):
    if due_ms is None:
        bench.send(protocol.payload(number, protocol.now_ms()))
    else:
        job = protocol.payload(number, due_ms)
        bench.send_with_options(args=(job,), delay=max(0, due_ms - protocol.now_ms()))


def spread(push_one):
    """Pushes all jobs, many at once."""
    numbers, lock = iter(range(task.jobs)), threading.Lock()

    def one():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            push_one(number)

    threads = [threading.Thread(target=one) for _ in range(protocol.IN_FLIGHT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_by_one():
    for number in range(task.jobs):
        push(number)


def timed(work):
    task.ready()
    begin = time.monotonic()
    work()
    protocol.reply({"seconds": time.monotonic() - begin})
    task.wait_for_end()


def warm_up():
    serve()
    push(-1)
    if not task.warm.wait(60):
        raise SystemExit("the first job was not handled within a minute")


def due():
    warm_up()
    task.ready()
    begin_ms = protocol.now_ms() + protocol.LEAD_MS
    spread(lambda number: push(number, task.due_ms(begin_ms, number)))
    if protocol.now_ms() > begin_ms:
        protocol.unsupported("the pushes did not finish before the first job fell due")
    task.finish(begin_ms * 1000, True)


def drain():
    spread(push)
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
    "push-flight": lambda: timed(lambda: spread(push)),
    "push-batch": lambda: protocol.unsupported("it has no batches"),
    "drain": drain,
    "due": due,
    "idle": idle,
}
TASKS.get(task.name, lambda: protocol.unsupported("unknown task"))()
