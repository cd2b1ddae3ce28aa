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

local ids, entries = {}, {}
local at = 1
while at <= #ARGV do
  local id, token, verdict = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local extras = EXTRAS[verdict or '']
  local where = 'settle entry ' .. (#ids + 1) .. ': '
  if not extras then return refuse(where .. 'no verdict ' .. tostring(verdict)) end
  if not string.match(token, '^%d+$') then return refuse(where .. 'no token') end
  if at + 2 + extras > #ARGV then return refuse(where .. 'it is cut short') end
  local entry = { token = token, verdict = verdict }
  if verdict == 'release' then
    entry.delay, entry.due = read_whole(ARGV[at + 3], 0, DELAY_MAX), ARGV[at + 4]
    if not entry.delay or not string.match(entry.due, '^%d+$') then
      return refuse(where .. 'a release has a delay and a due time in whole ms')
    end
  elseif verdict == 'nack' then
    entry.delay = read_whole(ARGV[at + 3], 0, DELAY_MAX)
    entry.attempts_max = read_whole(ARGV[at + 4], 1, 999999)
    entry.info = ARGV[at + 5]
    if not entry.delay or not entry.attempts_max then
      return refuse(where .. 'a nack has a delay in whole ms and 1 to 999999 attempts')
    end
  elseif verdict == 'drop' then
    entry.info = ARGV[at + 3]
  end
  ids[#ids + 1] = id
  entries[#entries + 1] = entry
  at = at + 3 + extras
end
if #ids < 1 or #ids > 1000 then return refuse('settle takes 1 to 1000 jobs') end

local tokens = redis.call('ZMSCORE', UNACK, unpack(ids))
local newer = redis.call('ZMSCORE', PENDING, unpack(ids))

local words, seen = {}, {}
local ended, forgotten, finished, deaths = {}, {}, {}, {}
local to_ready, to_retry, to_attempts = {}, {}, {}

-- What becomes of a job that did not end well, has a payload and no successor.
local function fail(id, entry)
  if entry.verdict == 'release' then
    local delayed = entry.delay > 0
    local stage = delayed and to_retry or to_ready
    stage[#stage + 1] = delayed and whole(now_ms + entry.delay) or entry.due
    stage[#stage + 1] = id
    return 'released'
  end
  if entry.verdict == 'nack' then
    local attempts = tonumber(redis.call('HGET', ATTEMPTS, id) or 0) or 0
    if attempts % 1000000 + 1 < entry.attempts_max then
      to_attempts[#to_attempts + 1] = id
      to_attempts[#to_attempts + 1] = whole(attempts + 1)
      to_retry[#to_retry + 1] = whole(now_ms + entry.delay)
      to_retry[#to_retry + 1] = id
      return 'retry'
    end
  end
  deaths[#deaths + 1] = {
    id = id,
    payload = redis.call('HGET', JOBS, id),
    options = redis.call('HGET', OPTS, id),
    info = entry.info,
  }
  return 'dead'
end

for i, id in ipairs(ids) do
  local entry = entries[i]
  if seen[id] or tokens[i] ~= entry.token then
    words[i] = 'lost'
  else
    seen[id] = true
    ended[#ended + 1] = id
    if entry.verdict == 'ack' then
      words[i] = 'done'
    elseif newer[i] then
      words[i] = 'superseded'
    elseif redis.call('HEXISTS', JOBS, id) == 0 then
      words[i] = 'cancelled'
    else
      words[i] = fail(id, entry)
    end
    if words[i] ~= 'released' and words[i] ~= 'retry' then
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
