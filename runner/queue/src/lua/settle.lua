-- Ends leases by their verdicts. Each is fenced by its token; a stale one answers `lost` and changes
-- nothing. The whole batch is read and checked before the first write, and that one removes: it is
-- allowed where Redis is out of memory, so a full Redis still drains.
--
-- KEYS  jobs opts pending ready unack retry attempts dead dead:jobs dead:opts dead:info holders
-- ARGV  for each job id, token, verdict, and then
--         ack      nothing
--         release  delay in ms (0: to ready at its old due time), due in ms
--         nack     delay in ms, attempts in all (1 to 999999), info
--         drop     info
-- Returns a word for each job: done, superseded, cancelled, released, retry, dead, lost
local JOBS, OPTS, PENDING, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNACK, RETRY, ATTEMPTS = KEYS[5], KEYS[6], KEYS[7]
local DEAD_KEYS = { KEYS[8], KEYS[9], KEYS[10], KEYS[11] }
local HOLDERS = KEYS[12]
local EXTRAS = { ack = 0, release = 2, nack = 3, drop = 1 }
local DELAY_MAX = 1e12

-- What is wrong with the verdict that begins at an argument, or nil; and how many arguments it has
-- beyond id, token and verdict.
local function fault(at)
  local extras = EXTRAS[ARGV[at + 2] or '']
  if not extras then return 'no verdict ' .. tostring(ARGV[at + 2]) end
  if not string.find(ARGV[at + 1], '^%d+$') then return 'no token' end
  if at + 2 + extras > #ARGV then return 'it is cut short' end
  if extras > 1 and not read_whole(ARGV[at + 3], 0, DELAY_MAX) then
    return 'its delay is no whole number of ms up to ' .. whole(DELAY_MAX)
  end
  if extras == 2 and not string.find(ARGV[at + 4], '^%d+$') then
    return 'its due time is no whole number of ms'
  end
  if extras == 3 and not read_whole(ARGV[at + 4], 1, 999999) then
    return 'its attempts in all are not 1 to 999999'
  end
  return nil, extras
end

-- Where each verdict begins.
local ids, starts = {}, {}
local at, count = 1, 0
while at <= #ARGV do
  local wrong, extras = fault(at)
  count = count + 1
  if wrong then return refuse('settle entry ' .. count .. ': ' .. wrong) end
  ids[count], starts[count] = ARGV[at], at
  at = at + 3 + extras
end
if count < 1 or count > 1000 then return refuse('settle takes 1 to 1000 jobs') end

local tokens = redis.call('ZMSCORE', UNACK, unpack(ids))
local newer = redis.call('ZMSCORE', PENDING, unpack(ids))

local words, seen = {}, {}
local ended, forgotten, finished, deaths = {}, {}, {}, {}
local to_ready, to_retry, to_attempts = {}, {}, {}

-- What becomes of a job that did not end well, has a payload and no successor.
local function fail(id, at)
  local verdict, delay = ARGV[at + 2], tonumber(ARGV[at + 3])
  if verdict == 'release' then
    local stage = delay > 0 and to_retry or to_ready
    stage[#stage + 1] = delay > 0 and whole(now_ms + delay) or ARGV[at + 4]
    stage[#stage + 1] = id
    return 'released'
  end
  if verdict == 'nack' then
    local attempts = tonumber(redis.call('HGET', ATTEMPTS, id) or 0) or 0
    if attempts % 1000000 + 1 < tonumber(ARGV[at + 4]) then
      to_attempts[#to_attempts + 1] = id
      to_attempts[#to_attempts + 1] = whole(attempts + 1)
      to_retry[#to_retry + 1] = whole(now_ms + delay)
      to_retry[#to_retry + 1] = id
      return 'retry'
    end
  end
  deaths[#deaths + 1] = {
    id = id,
    payload = redis.call('HGET', JOBS, id),
    options = redis.call('HGET', OPTS, id),
    info = verdict == 'drop' and ARGV[at + 3] or ARGV[at + 5],
  }
  return 'dead'
end

for i, id in ipairs(ids) do
  local at = starts[i]
  if seen[id] or tokens[i] ~= ARGV[at + 1] then
    words[i] = 'lost'
  else
    local word
    if ARGV[at + 2] == 'ack' then
      word = 'done'
    elseif newer[i] then
      word = 'superseded'
    elseif redis.call('HEXISTS', JOBS, id) == 0 then
      word = 'cancelled'
    else
      word = fail(id, at)
    end
    seen[id] = true
    words[i] = word
    ended[#ended + 1] = id
    if word ~= 'released' and word ~= 'retry' then
      forgotten[#forgotten + 1] = id
      -- Payload and options of a superseded job are its successor's.
      if not newer[i] then finished[#finished + 1] = id end
    end
  end
end
if #ended == 0 then return words end

redis.call('ZREM', UNACK, unpack(ended))
bury(DEAD_KEYS, deaths)
if #forgotten > 0 then redis.call('HDEL', ATTEMPTS, unpack(forgotten)) end
if #finished > 0 then
  redis.call('HDEL', JOBS, unpack(finished))
  redis.call('HDEL', OPTS, unpack(finished))
end
if #to_attempts > 0 then redis.call('HSET', ATTEMPTS, unpack(to_attempts)) end
if #to_ready > 0 then redis.call('ZADD', READY, unpack(to_ready)) end
if #to_retry > 0 then redis.call('ZADD', RETRY, unpack(to_retry)) end
-- The topic is empty: no reply of a lease call can be asked for again, and a late repetition of a
-- call would find nothing to lease.
if redis.call('EXISTS', UNACK, READY, RETRY, PENDING) == 0 then redis.call('DEL', HOLDERS) end
return words
