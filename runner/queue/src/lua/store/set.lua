-- Writes a value to the store if the condition holds: 'always', 'absent', or a revision that the value must
-- have.
--
-- KEYS  kv kv:rev kv:at kv:calls meta
-- ARGV  name (1 to 256 bytes), value (to 65536 bytes), ttl in ms (0: no expiry), condition
--       and the caller and its number, or neither
-- Returns ok | conflict | full | again: expired values were deleted, and another call may free more space
-- @include now
-- @include number
-- @include expiry
-- @include kv
-- @include calls
local name, value, condition = ARGV[1], ARGV[2], ARGV[4]
local caller, number = ARGV[5], ARGV[6]
local ttl = read_whole(ARGV[3], 0, DELAY_MAX_MS)

if not is_name(name) then return refuse('a name has 1 to 256 bytes') end
if not value or #value > KV_VALUE_BYTES_MAX then return refuse('a value has at most 65536 bytes') end
if not ttl then return refuse('a value is kept for 0 to 315360000000 ms') end
if condition ~= 'always' and condition ~= 'absent' and not read_whole(condition, 0, 2 ^ 53) then
  return refuse('set knows no condition ' .. tostring(condition))
end
if not is_caller(caller, number) then return refuse('a caller has a name and a number') end
expect_store()
local earlier = earlier_reply(caller, number)
if earlier then return earlier end
prune_values(PRUNED)
local there = redis.call('HEXISTS', KV, name) == 1 and not has_expired(name)
if condition == 'absent' then
  if there then return keep_reply(caller, number, 'conflict') end
elseif condition ~= 'always' then
  if not there or (redis.call('HGET', KV_REV, name) or '0') ~= condition then
    return keep_reply(caller, number, 'conflict')
  end
end
local no_room = refusal(name, #name + #value)
if no_room then return no_room end
keep_value(name, value, ttl > 0 and now_ms + ttl)
return keep_reply(caller, number, 'ok')
