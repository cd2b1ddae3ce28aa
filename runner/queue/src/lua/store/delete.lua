-- Takes a value away from the topic's store.
--
-- KEYS  kv kv:rev kv:at meta
-- ARGV  name (1 to 256 bytes)
-- Returns 1, or 0 if there was none
-- @include now
-- @include over
-- @include kv
local name = ARGV[1]

if not is_name(name) then return refuse('a name has 1 to 256 bytes') end
sweep_values(SWEPT)
local there = redis.call('HEXISTS', KV, name) == 1 and not is_over(name)
forget_values({ name })
return there and 1 or 0
