-- Deletes dead or done jobs: the oldest that ended before a time, the oldest above a count, or some by id.
-- Live keys are not touched.
--
-- KEYS  dead dead:jobs dead:opts dead:info done done:jobs done:info done:result meta
-- ARGV  list (dead, done), then 'before', age in ms, n | 'above', count, n | 'ids', ids (1 to 1000). An age or
--       a count of '' is the topic's own rule; without one nothing is deleted
-- Returns the number of deleted jobs
-- @include now
-- @include number
-- @include types
local lists = {
  dead = { entries = DEAD, parts = { DEAD_JOBS, DEAD_OPTS, DEAD_INFO } },
  done = { entries = DONE, parts = { DONE_JOBS, DONE_INFO, DONE_RESULT } },
}
local list, by = lists[ARGV[1] or ''], ARGV[2]
local rules = { before = ARGV[1] == 'dead' and 'retention' or 'done_retention', above = 'max_dead' }
local bound, n = read_whole(ARGV[3], 0, TIME_MAX), read_whole(ARGV[4], 1, BATCH_MAX)

if not list then return refuse('prune knows the dead and the done') end
if ARGV[3] == '' and n and rules[by] then
  bound = read_whole(redis.call('HGET', META, rules[by]), 0, TIME_MAX)
  if not bound then return 0 end
end
local ids
if by == 'ids' then
  if #ARGV < 3 or #ARGV > 1002 then return refuse('prune takes 1 to 1000 ids') end
  ids = {}
  for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
elseif not bound or not n then
  return refuse('prune takes a bound, and 1 to 1000 jobs a call')
elseif by == 'before' then
  ids = redis.call('ZRANGEBYSCORE', list.entries, '-inf', '(' .. whole(now_ms - bound),
    'LIMIT', 0, n)
elseif by == 'above' then
  local excess = math.min(n, redis.call('ZCARD', list.entries) - bound)
  ids = excess > 0 and redis.call('ZRANGE', list.entries, 0, excess - 1) or {}
else
  return refuse('prune knows no way ' .. tostring(by))
end
if #ids == 0 then return 0 end
expect_hashes(unpack(list.parts))
local removed = redis.call('ZREM', list.entries, unpack(ids))
for _, part in ipairs(list.parts) do redis.call('HDEL', part, unpack(ids)) end
return removed
