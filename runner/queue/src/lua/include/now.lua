-- The clock of Redis. `whole` writes all digits of a number: a token has 16, Lua's `..` keeps 14.
local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)
local function whole(number) return string.format('%.0f', number) end
local function refuse(why) return redis.error_reply('DUEBOX ' .. why) end
