# expect: nack
class Odd:
    def __await__(self):
        yield 42


async def handle(payload):
    await Odd()
