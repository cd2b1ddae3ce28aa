-- Reports for each id whether a push of it must go to this shard.
--
-- KEYS  jobs unack unique
-- ARGV  ids
-- Returns for each id 2 if it is live or leased, 1 if it is reserved after its job was done, else 0
-- @include now
if #ARGV < 1 or #ARGV > BATCH_MAX then return refuse('locate takes 1 to 1000 ids') end
local unack = redis.call('ZMSCORE', UNACK, unpack(ARGV))
local held_until = redis.call('ZMSCORE', UNIQUE, unpack(ARGV))
local found = {}
for i, id in ipairs(ARGV) do
  local is_held = held_until[i] and tonumber(held_until[i]) > now_ms
  local is_live = unack[i] or redis.call('HEXISTS', JOBS, id) == 1
  found[i] = is_live and 2 or (is_held and 1 or 0)
end
return found
