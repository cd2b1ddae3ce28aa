-- Ends leases that have expired, oldest first: their runner died or was cut off. It counts as a crash
-- of the job and not as a failure; too many crashes bury it.
--
-- KEYS  jobs opts pending unack retry attempts dead dead:jobs dead:opts dead:info holders
-- ARGV  n (1 to 1000), crashes allowed (the job's own count goes before it), delay in ms, info
-- Returns ms until the next lease expires or '', then id, word (retry, dead, superseded, cancelled)
local JOBS, OPTS, PENDING, UNACK = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local RETRY, ATTEMPTS = KEYS[5], KEYS[6]
local DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local HOLDERS = KEYS[11]
local n, crashes_max, delay, info = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

if not n or n < 1 or n > 1000 then return refuse('reclaim takes 1 to 1000 leases') end
if not crashes_max or crashes_max < 1 or not delay or delay < 0 or not info then
  return refuse('reclaim needs the crashes allowed, a delay and an info')
end

local function crashes_allowed(options)
  if not options then return crashes_max end
  local decoded, own = pcall(cjson.decode, options)
  if decoded and type(own) == 'table' and type(own.max_crashes) == 'number' then
    return own.max_crashes
  end
  return crashes_max
end

local answer = { '' }
local ids = redis.call('ZRANGEBYSCORE', UNACK, '-inf', whole(now_us), 'LIMIT', 0, n)
for _, id in ipairs(ids) do
  local word
  local payload = redis.call('HGET', JOBS, id)
  if redis.call('ZSCORE', PENDING, id) then
    word = 'superseded'
    redis.call('HDEL', ATTEMPTS, id)
  elseif not payload then
    word = 'cancelled'
    redis.call('HDEL', ATTEMPTS, id)
    redis.call('HDEL', OPTS, id)
  else
    local options = redis.call('HGET', OPTS, id)
    local attempts = tonumber(redis.call('HGET', ATTEMPTS, id) or 0)
    if math.floor(attempts / 1000000) + 1 < crashes_allowed(options) then
      word = 'retry'
      redis.call('HINCRBY', ATTEMPTS, id, 1000000)
      redis.call('ZADD', RETRY, whole(now_ms + delay), id)
    else
      word = 'dead'
      bury(DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO, id, payload, options, info)
      redis.call('HDEL', JOBS, id)
      redis.call('HDEL', OPTS, id)
      redis.call('HDEL', ATTEMPTS, id)
    end
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = word
end
if #ids > 0 then redis.call('ZREM', UNACK, unpack(ids)) end

local first = redis.call('ZRANGE', UNACK, 0, 0, 'WITHSCORES')
if first[2] then
  answer[1] = whole(math.max(0, math.ceil((tonumber(first[2]) - now_us) / 1000)))
elseif #ids > 0 then
  redis.call('DEL', HOLDERS)
end
return answer
