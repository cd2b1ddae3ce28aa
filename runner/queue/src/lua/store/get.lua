-- Reads a value of the topic's store.
--
-- KEYS  kv kv:rev kv:at
-- ARGV  name
-- Returns the value and its revision, or nothing
-- @include expiry
local name = ARGV[1]

local value = redis.call('HGET', KV, name)
if not value or has_expired(name) then return {} end
return { value, redis.call('HGET', KV_REV, name) or '0' }
