-- Adds to a number of the store, which is stored as decimal digits; a missing value counts as 0. Its expiry
-- does not change.
--
-- KEYS  kv kv:rev kv:at kv:calls meta
-- ARGV  name (1 to 256 bytes), delta (a whole number of 64 bits), and the caller and its number, or neither
-- Returns ok | full | again (see set) | nan (the value or the sum is not a 64-bit integer), and with ok the
--          sum as text: Lua's numbers have 53 bits
-- @include now
-- @include expiry
-- @include kv
-- @include calls
local name, delta, caller, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not is_name(name) then return refuse('a name has 1 to 256 bytes') end
if not string.find(delta or '', '^%-?%d+$') or #delta > 20 then return refuse('a delta is a whole number') end
if not is_caller(caller, number) then return refuse('a caller has a name and a number') end
expect_store()
local earlier = earlier_reply(caller, number)
if earlier then return { string.match(earlier, '^(%S+) ?(.*)$') } end
prune_values(PRUNED)
if has_expired(name) then forget_values({ name }) end
local before = redis.call('HGET', KV, name)
local added = redis.pcall('HINCRBY', KV, name, delta)
if type(added) == 'table' and added.err then
  if string.find(added.err, 'integer', 1, true) or string.find(added.err, 'overflow', 1, true) then
    return { keep_reply(caller, number, 'nan') }
  end
  return added
end
local sum = redis.call('HGET', KV, name)
-- Restored, so that space is freed and the value is written as by any other verb.
if before then redis.call('HSET', KV, name, before) else redis.call('HDEL', KV, name) end
local no_room = refusal(name, #name + #sum)
if no_room then return { no_room } end
keep_value(name, sum, tonumber(redis.call('ZSCORE', KV_AT, name) or ''))
keep_reply(caller, number, 'ok ' .. sum)
return { 'ok', sum }
