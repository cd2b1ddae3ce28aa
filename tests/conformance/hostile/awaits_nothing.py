# expect: nack
import asyncio


async def handle(payload):
    await asyncio.get_running_loop().create_future()
