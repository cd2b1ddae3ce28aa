-- Leases the jobs that have been due longest, under one token for the call. What was superseded by a
-- newer push, or has no payload, is withdrawn. The same call repeated before its token expires (its
-- reply was lost) gets the same jobs again.
--
-- KEYS  ready unack pending jobs opts attempts meta holders
-- ARGV  n (1 to 1000), lease in ms, call id
-- Returns a word (ok, again, empty, paused); after ok and again the token, the count withdrawn, and
-- id, due, payload, options or '', attempts or '' for each job
local READY, UNACK, PENDING, JOBS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OPTS, ATTEMPTS, META, HOLDERS = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local n, lease_ms, call = read_whole(ARGV[1], 1, 1000), read_whole(ARGV[2], 1, 86400000), ARGV[3]

if not n then return refuse('lease takes 1 to 1000 jobs') end
if not lease_ms then return refuse('a lease lasts 1 ms to one day') end
if not call or call == '' then return refuse('lease needs a call id') end

-- Adds to `answer` those of `ids` that are to run, and returns those that are not: superseded ones,
-- and ones without a payload.
local function sort_out(answer, ids, dues)
  local superseded, missing, kept = {}, {}, {}
  local newer = redis.call('ZMSCORE', PENDING, unpack(ids))
  local payloads = redis.call('HMGET', JOBS, unpack(ids))
  local options = redis.call('EXISTS', OPTS) == 1 and redis.call('HMGET', OPTS, unpack(ids)) or {}
  local attempts = redis.call('EXISTS', ATTEMPTS) == 1
    and redis.call('HMGET', ATTEMPTS, unpack(ids)) or {}
  local last = #answer
  for i, id in ipairs(ids) do
    if newer[i] then
      superseded[#superseded + 1] = id
    elseif not payloads[i] then
      missing[#missing + 1] = id
    else
      kept[#kept + 1] = id
      answer[last + 1], answer[last + 2], answer[last + 3] = id, dues[i], payloads[i]
      answer[last + 4], answer[last + 5] = options[i] or '', attempts[i] or ''
      last = last + 5
    end
  end
  return superseded, missing, kept
end

redis.call('ZREMRANGEBYSCORE', HOLDERS, '-inf', whole(now_us))
local held = redis.call('ZSCORE', HOLDERS, call)
if held then
  local answer = { 'again', held, 0 }
  local ids = redis.call('ZRANGEBYSCORE', UNACK, held, held, 'LIMIT', 0, 1000)
  if #ids > 0 then
    local dues = {}
    for i = 1, #ids do dues[i] = whole(math.floor(tonumber(held) / 1000) - lease_ms) end
    local superseded = sort_out(answer, ids, dues)
    if #superseded > 0 then
      redis.call('ZREM', UNACK, unpack(superseded))
      redis.call('HDEL', ATTEMPTS, unpack(superseded))
    end
  end
  return answer
end

local paused = redis.call('HGET', META, 'paused')
if paused and paused ~= '0' then return { 'paused' } end

local found = redis.call('ZRANGE', READY, 0, n - 1, 'WITHSCORES')
if #found == 0 then return { 'empty' } end
local ids, dues = {}, {}
for i = 1, #found, 2 do
  ids[#ids + 1] = found[i]
  dues[#dues + 1] = found[i + 1]
end
local token = whole(now_us + lease_ms * 1000)
local answer = { 'ok', token, 0 }
local superseded, missing, kept = sort_out(answer, ids, dues)

redis.call('ZREMRANGEBYRANK', READY, 0, #ids - 1)
if #superseded > 0 then redis.call('HDEL', ATTEMPTS, unpack(superseded)) end
if #missing > 0 then
  redis.call('HDEL', ATTEMPTS, unpack(missing))
  redis.call('HDEL', OPTS, unpack(missing))
end
answer[3] = #superseded + #missing
if #kept == 0 then return answer end

local to_unack = {}
for i, id in ipairs(kept) do
  to_unack[2 * i - 1], to_unack[2 * i] = token, id
end
if redis.call('ZADD', UNACK, 'NX', unpack(to_unack)) < #kept then
  -- Somebody put a leased id into ready by hand: it is withdrawn, never leased twice.
  local scores = redis.call('ZMSCORE', UNACK, unpack(kept))
  local own = { 'ok', token, answer[3] }
  for i = 1, #kept do
    if scores[i] == token then
      for field = 5 * i - 1, 5 * i + 3 do own[#own + 1] = answer[field] end
    else
      own[3] = own[3] + 1
    end
  end
  answer = own
end
redis.call('ZADD', HOLDERS, token, call)
return answer
