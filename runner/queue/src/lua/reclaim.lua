-- Ends leases that have expired, oldest first: their runner died or was cut off. It counts as a crash
-- of the job and not as a failure; too many crashes bury it.
--
-- KEYS  jobs opts pending unack retry attempts dead dead:jobs dead:opts dead:info holders
-- ARGV  n (1 to 1000), crashes allowed (the job's own count goes before it), delay in ms, info
-- Returns ms until the next lease expires or '', then id, word (retry, dead, superseded, cancelled)
local JOBS, OPTS, PENDING, UNACK = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local RETRY, ATTEMPTS = KEYS[5], KEYS[6]
local DEAD_KEYS = { KEYS[7], KEYS[8], KEYS[9], KEYS[10] }
local HOLDERS = KEYS[11]
local n, crashes_max = read_whole(ARGV[1], 1, 1000), read_whole(ARGV[2], 1, 1e9)
local delay, info = read_whole(ARGV[3], 0, 1e12), ARGV[4]

if not n then return refuse('reclaim takes 1 to 1000 leases') end
if not crashes_max or not delay or not info then
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

local function next_expiry()
  local first = redis.call('ZRANGE', UNACK, 0, 0, 'WITHSCORES')
  if not first[2] then return '' end
  return whole(math.max(0, math.ceil((tonumber(first[2]) - now_us) / 1000)))
end

local ids = redis.call('ZRANGEBYSCORE', UNACK, '-inf', whole(now_us), 'LIMIT', 0, n)
if #ids == 0 then return { next_expiry() } end

local newer = redis.call('ZMSCORE', PENDING, unpack(ids))
local forgotten, finished, deaths = {}, {}, {}
local to_retry, to_attempts = {}, {}
local answer = { '' }
for i, id in ipairs(ids) do
  local word
  if newer[i] then
    word = 'superseded'
  elseif redis.call('HEXISTS', JOBS, id) == 0 then
    word = 'cancelled'
  else
    local options = redis.call('HGET', OPTS, id)
    local attempts = tonumber(redis.call('HGET', ATTEMPTS, id) or 0) or 0
    if math.floor(attempts / 1000000) + 1 < crashes_allowed(options) then
      word = 'retry'
      to_attempts[#to_attempts + 1] = id
      to_attempts[#to_attempts + 1] = whole(attempts + 1000000)
      to_retry[#to_retry + 1] = whole(now_ms + delay)
      to_retry[#to_retry + 1] = id
    else
      word = 'dead'
      deaths[#deaths + 1] = {
        id = id, payload = redis.call('HGET', JOBS, id), options = options, info = info,
      }
    end
  end
  if word ~= 'retry' then
    forgotten[#forgotten + 1] = id
    if not newer[i] then finished[#finished + 1] = id end
  end
  answer[2 * i], answer[2 * i + 1] = id, word
end

redis.call('ZREM', UNACK, unpack(ids))
bury(DEAD_KEYS, deaths)
if #forgotten > 0 then redis.call('HDEL', ATTEMPTS, unpack(forgotten)) end
if #finished > 0 then
  redis.call('HDEL', JOBS, unpack(finished))
  redis.call('HDEL', OPTS, unpack(finished))
end
if #to_attempts > 0 then redis.call('HSET', ATTEMPTS, unpack(to_attempts)) end
if #to_retry > 0 then redis.call('ZADD', RETRY, unpack(to_retry)) end
-- A lease call that has expired is a new call when it is repeated: nothing of it need be known.
redis.call('ZREMRANGEBYSCORE', HOLDERS, '-inf', whole(now_us))
answer[1] = next_expiry()
return answer
