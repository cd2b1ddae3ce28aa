-- Takes values away from the topic's store whose time is over.
--
-- KEYS  kv kv:rev kv:at meta
-- ARGV  n (1 to 1000)
-- Returns how many there were
-- @include now
-- @include number
-- @include kv
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('sweep takes 1 to 1000 values') end
return sweep_values(n)
