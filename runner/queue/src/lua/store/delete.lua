-- Deletes a value of the store.
--
-- KEYS  kv kv:rev kv:at meta
-- ARGV  name (1 to 256 bytes)
-- Returns 1, or 0 if there was no value
-- @include now
-- @include expiry
-- @include kv
local name = ARGV[1]

if not is_name(name) then return refuse('a name has 1 to 256 bytes') end
expect_store()
prune_values(PRUNED)
local there = redis.call('HEXISTS', KV, name) == 1 and not has_expired(name)
forget_values({ name })
return there and 1 or 0
