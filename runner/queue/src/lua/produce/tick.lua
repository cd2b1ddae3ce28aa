-- Pushes the jobs of a schedule's ticks, once however many runners call it: `ticks` must hold what the
-- caller expects, and moves on with the push.
--
-- KEYS  ticks jobs opts pending ready blocked:at unack retry unique meta
-- ARGV  schedule, its line, the time up to which its ticks are handled as the caller knows it ('' if never),
--       the new such time, payload, then the times of the ticks, all in unix ms
-- Returns ok and a word for each tick: pushed, kept (live), held (done, and held as unique);
--         taken and what is so: until, the line; early and the ms until `until`
-- @include now
-- @include number
-- @include wake
-- @include types
local schedule, line, payload = ARGV[1], ARGV[2], ARGV[5]
local expected, until_text = ARGV[3], ARGV[4]
local count = #ARGV - 5

local until_ms = read_whole(until_text, DUE_MIN, DUE_MAX)
if schedule == '' or not until_ms then
  return refuse('tick takes a schedule and the unix ms up to which its ticks are handled')
end
if expected ~= '' and not read_whole(expected, DUE_MIN, DUE_MAX) then
  return refuse('tick expects unix ms or nothing')
end
if count > BATCH_MAX then
  return refuse('tick takes 0 to 1000 ticks')
end
local ids, seen = {}, {}
for i = 1, count do
  local time = ARGV[5 + i]
  if not read_whole(time, DUE_MIN, until_ms) or seen[time] then
    return refuse('tick ' .. i .. ' is invalid, after the end, or repeated')
  end
  seen[time] = true
  ids[i] = schedule .. '@' .. time
end

if until_ms > now_ms then return { 'early', whole(until_ms - now_ms) } end
local known = redis.call('HMGET', TICKS, schedule, schedule .. ':line')
-- A value that is not a time, written by hand, counts as missing.
local current = read_whole(known[1], DUE_MIN, DUE_MAX) and known[1] or ''
if current ~= expected then return { 'taken', current, known[2] or '' } end

local words = { 'ok' }
local to_ready, fresh = {}, {}
if count > 0 then
  local pending = redis.call('ZMSCORE', PENDING, unpack(ids))
  local ready = redis.call('ZMSCORE', READY, unpack(ids))
  local blocked = redis.call('HMGET', BLOCKED_AT, unpack(ids))
  local unack = redis.call('ZMSCORE', UNACK, unpack(ids))
  local retry = redis.call('ZMSCORE', RETRY, unpack(ids))
  local held = redis.call('ZMSCORE', UNIQUE, unpack(ids))
  for i, id in ipairs(ids) do
    if pending[i] or ready[i] or blocked[i] or unack[i] or retry[i] then
      words[i + 1] = 'kept'
    elseif held[i] and tonumber(held[i]) > now_ms then
      words[i + 1] = 'held'
    else
      words[i + 1] = 'pushed'
      fresh[#fresh + 1] = id
      to_ready[#to_ready + 1] = ARGV[5 + i]
      to_ready[#to_ready + 1] = id
    end
  end
end

if #fresh > 0 then expect_hashes(JOBS, OPTS, META) end
-- The first write adds: if Redis is out of memory it refuses, and nothing has changed.
redis.call('HSET', TICKS, schedule, until_text, schedule .. ':line', line)
if #fresh > 0 then
  for _, id in ipairs(fresh) do redis.call('HSET', JOBS, id, payload) end
  redis.call('HDEL', OPTS, unpack(fresh))
  redis.call('ZADD', READY, unpack(to_ready))
  redis.call('HSET', TICKS, schedule .. ':run', to_ready[#to_ready - 1])
  -- The jobs are in the first shard, where `ticks` is: lookups must include that shard.
  local shards_seen = redis.call('HGET', META, 'shards_seen')
  if shards_seen and not string.find(' ' .. shards_seen .. ' ', ' 1 ', 1, true) then
    redis.call('HSET', META, 'shards_seen', shards_seen .. ' 1')
  end
  wake(tonumber(to_ready[1]))
end
return words
