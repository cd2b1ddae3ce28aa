-- Forgets dead jobs: the oldest that died before a time, the oldest above a count, or some by id.
-- Never touches a live key.
--
-- KEYS  dead dead:jobs dead:opts dead:info
-- ARGV  'before', age in ms, n | 'above', count, n | 'ids', ids (1 to 1000)
-- Returns the count forgotten
local DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local by, bound, n = ARGV[1], read_whole(ARGV[2], 0, 1e15), read_whole(ARGV[3], 1, 1000)

local ids
if by == 'ids' then
  if #ARGV < 2 or #ARGV > 1001 then return refuse('prune takes 1 to 1000 ids') end
  ids = {}
  for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
elseif not bound or not n then
  return refuse('prune takes a bound, and 1 to 1000 jobs a call')
elseif by == 'before' then
  ids = redis.call('ZRANGEBYSCORE', DEAD, '-inf', '(' .. whole(now_ms - bound), 'LIMIT', 0, n)
elseif by == 'above' then
  local excess = math.min(n, redis.call('ZCARD', DEAD) - bound)
  ids = excess > 0 and redis.call('ZRANGE', DEAD, 0, excess - 1) or {}
else
  return refuse('prune knows no way ' .. tostring(by))
end
if #ids == 0 then return 0 end
local removed = redis.call('ZREM', DEAD, unpack(ids))
redis.call('HDEL', DEAD_JOBS, unpack(ids))
redis.call('HDEL', DEAD_OPTS, unpack(ids))
redis.call('HDEL', DEAD_INFO, unpack(ids))
return removed
