-- Ends leases by their verdicts. Each is fenced by its token; a stale one answers `lost` and changes
-- nothing. The whole batch is read and checked before the first write.
--
-- KEYS  jobs opts pending ready unack retry attempts dead dead:jobs dead:opts dead:info holders
-- ARGV  for each job id, token, verdict, and then
--         ack      nothing
--         release  delay in ms (0: to ready at its old due time), due in ms
--         nack     delay in ms, attempts in all, info
--         drop     info
-- Returns a word for each job: done, superseded, cancelled, released, retry, dead, lost
local JOBS, OPTS, PENDING, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNACK, RETRY, ATTEMPTS = KEYS[5], KEYS[6], KEYS[7]
local DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local HOLDERS = KEYS[12]
local EXTRAS = { ack = 0, release = 2, nack = 3, drop = 1 }

local ids, entries = {}, {}
local at = 1
while at <= #ARGV do
  local id, token, verdict = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local extras = EXTRAS[verdict or '']
  local where = 'settle entry ' .. (#ids + 1) .. ': '
  if not extras then return refuse(where .. 'no verdict ' .. tostring(verdict)) end
  if id == '' or not string.match(token, '^%d+$') then return refuse(where .. 'no id or token') end
  local a, b, c = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if at + 2 + extras > #ARGV then return refuse(where .. 'it is cut short') end
  if verdict == 'nack' or verdict == 'release' then
    if not string.match(a, '^%d+$') or not string.match(b, '^%d+$') then
      return refuse(where .. 'delay, attempts and due are whole numbers')
    end
  end
  ids[#ids + 1] = id
  entries[#entries + 1] = { token = token, verdict = verdict, a = a, b = b, c = c }
  at = at + 3 + extras
end
if #ids < 1 or #ids > 1000 then return refuse('settle takes 1 to 1000 jobs') end

local tokens = redis.call('ZMSCORE', UNACK, unpack(ids))
local newer = redis.call('ZMSCORE', PENDING, unpack(ids))

local words, seen = {}, {}
local ended, forgotten, finished = {}, {}, {}
local to_ready, to_retry = {}, {}
for i, id in ipairs(ids) do
  local entry = entries[i]
  if seen[id] or tokens[i] ~= entry.token then
    words[i] = 'lost'
  else
    seen[id] = true
    ended[#ended + 1] = id
    local verdict = entry.verdict
    if verdict == 'ack' then
      words[i] = 'done'
      forgotten[#forgotten + 1] = id
      if not newer[i] then finished[#finished + 1] = id end
    elseif newer[i] then
      words[i] = 'superseded'
      forgotten[#forgotten + 1] = id
    else
      local payload = redis.call('HGET', JOBS, id)
      if not payload then
        words[i] = 'cancelled'
        forgotten[#forgotten + 1] = id
        finished[#finished + 1] = id
      elseif verdict == 'release' then
        words[i] = 'released'
        local delay = tonumber(entry.a)
        local stage = delay > 0 and to_retry or to_ready
        stage[#stage + 1] = delay > 0 and whole(now_ms + delay) or entry.b
        stage[#stage + 1] = id
      else
        local failures = tonumber(redis.call('HGET', ATTEMPTS, id) or 0) % 1000000
        if verdict == 'nack' and failures + 1 < tonumber(entry.b) then
          words[i] = 'retry'
          redis.call('HINCRBY', ATTEMPTS, id, 1)
          to_retry[#to_retry + 1] = whole(now_ms + tonumber(entry.a))
          to_retry[#to_retry + 1] = id
        else
          words[i] = 'dead'
          local info = verdict == 'drop' and entry.a or entry.c
          local options = redis.call('HGET', OPTS, id)
          bury(DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO, id, payload, options, info)
          forgotten[#forgotten + 1] = id
          finished[#finished + 1] = id
        end
      end
    end
  end
end
if #ended == 0 then return words end

redis.call('ZREM', UNACK, unpack(ended))
if #forgotten > 0 then redis.call('HDEL', ATTEMPTS, unpack(forgotten)) end
if #finished > 0 then
  redis.call('HDEL', JOBS, unpack(finished))
  redis.call('HDEL', OPTS, unpack(finished))
end
if #to_ready > 0 then redis.call('ZADD', READY, unpack(to_ready)) end
if #to_retry > 0 then redis.call('ZADD', RETRY, unpack(to_retry)) end
-- No lease is left, so no reply of a lease call can be asked for again.
if redis.call('EXISTS', UNACK) == 0 then redis.call('DEL', HOLDERS) end
return words
