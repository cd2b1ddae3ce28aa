-- Reads a value of the topic's store.
--
-- KEYS  kv kv:rev kv:at
-- ARGV  name
-- Returns the value and its revision; nothing if there is none
-- @include over
local name = ARGV[1]

local value = redis.call('HGET', KV, name)
if not value or is_over(name) then return {} end
return { value, redis.call('HGET', KV_REV, name) or '0' }
