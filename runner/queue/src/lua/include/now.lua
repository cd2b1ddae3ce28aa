-- The clock of Redis. `whole` writes all digits of a number: a token has 16, Lua's `..` keeps 14. `%d` costs
-- half of `%.0f`, and cannot write what is beyond the whole numbers of a double.
local WHOLE_MAX = 2 ^ 53
local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)
local function whole(number)
  local is_safe = number % 1 == 0 and number < WHOLE_MAX and number > -WHOLE_MAX
  return string.format(is_safe and '%d' or '%.0f', number)
end
local function refuse(why) return redis.error_reply('DUEBOX ' .. why) end
