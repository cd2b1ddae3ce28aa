# expect: timeout
import asyncio


async def handle(payload):
    while True:
        await asyncio.sleep(0)
