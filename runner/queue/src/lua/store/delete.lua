-- Deletes a value of the store.
--
-- KEYS  kv kv:rev kv:at kv:calls meta
-- ARGV  name (1 to 256 bytes), and the caller and its number, or neither
-- Returns 1, or 0 if there was no value, as text
-- @include now
-- @include expiry
-- @include kv
-- @include calls
local name, caller, number = ARGV[1], ARGV[2], ARGV[3]

if not is_name(name) then return refuse('a name has 1 to 256 bytes') end
if not is_caller(caller, number) then return refuse('a caller has a name and a number') end
expect_store()
local earlier = earlier_reply(caller, number)
if earlier then return earlier end
prune_values(PRUNED)
local there = redis.call('HEXISTS', KV, name) == 1 and not has_expired(name)
forget_values({ name })
return keep_reply(caller, number, there and '1' or '0')
