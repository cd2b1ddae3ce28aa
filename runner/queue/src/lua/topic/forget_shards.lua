-- Forgets earlier numbers of shards, unless the number changed since the caller looked.
--
-- KEYS  meta
-- ARGV  the number of shards, and the numbers there were, as the caller knows them
-- Returns 1 if they are forgotten
-- @include now
local count, seen = ARGV[1], ARGV[2]
if #ARGV ~= 2 or not tonumber(count) then return refuse('forget_shards takes a number and those there were') end
if (redis.call('HGET', META, 'shards') or '1') ~= count then return 0 end
if (redis.call('HGET', META, 'shards_seen') or '') ~= seen then return 0 end
if count == '1' then
  redis.call('HDEL', META, 'shards_seen')
else
  redis.call('HSET', META, 'shards_seen', count)
end
return 1
