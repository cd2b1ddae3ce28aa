-- Deletes expired values of the store.
--
-- KEYS  kv kv:rev kv:at meta
-- ARGV  n (1 to 1000)
-- Returns their number
-- @include now
-- @include number
-- @include kv
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('prune takes 1 to 1000 values') end
expect_store()
return prune_values(n)
