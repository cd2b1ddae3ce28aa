-- Ends expired leases, oldest first: their runner died or was cut off. For a job that started, this counts
-- as a crash, not as a failure; too many crashes bury it. A job that was leased ahead and may not have
-- started becomes a suspect: the next lease returns it only to start at once.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta dead dead:jobs dead:opts dead:info holders blocked blocked:at turns turns:of
-- ARGV  n (1 to 1000), crashes allowed (the job's own option goes first, then the topic's rule; '' buries
--       none: the caller does not serve the topic), delay in ms, info of buried jobs ('' deletes them), how
--       many ms ago a lease must have expired so that an outage may be the reason ('' for no outage; a
--       negative number is in the future): that is not a crash
-- Returns ms until the next lease expires or '', then id, word (retry, dead, discarded, superseded,
--         cancelled)
-- @include now
-- @include number
-- @include option
-- @include limits
-- @include failures
-- @include wake
-- @include permits_if_any
-- @include bury
-- @include tokens
-- @include types
local leases_max, crashes_max = read_whole(ARGV[1], 1, BATCH_MAX), read_whole(ARGV[2], 1, 1e9)
local may_bury = ARGV[2] ~= ''
local delay, info = read_whole(ARGV[3], 0, 1e12), ARGV[4]
local outage_ago = ARGV[5] or ''
local outage_until = outage_ago == '' and 0
  or string.find(outage_ago, '^%-?%d+$') and #outage_ago <= 15 and now_us - tonumber(outage_ago) * 1000

if not leases_max then return refuse('reclaim takes 1 to 1000 leases') end
if may_bury and not crashes_max or not delay or not info or not outage_until then
  return refuse('reclaim needs the crashes allowed, a delay, an info and a time')
end

local function next_expiry()
  local first = redis.call('ZRANGE', UNACK, 0, 0, 'WITHSCORES')
  if not first[2] then return '' end
  return whole(math.max(0, math.ceil((tonumber(first[2]) - now_us) / 1000)))
end

local ids = redis.call('ZRANGEBYSCORE', UNACK, '-inf', whole(now_us), 'LIMIT', 0, leases_max)
if #ids == 0 then return { next_expiry() } end

crashes_max = read_whole(redis.call('HGET', META, 'max_crashes'), 1, 1e9) or crashes_max
local successors = redis.call('ZMSCORE', PENDING, unpack(ids))
local tokens = redis.call('ZMSCORE', UNACK, unpack(ids))
local to_forget, to_delete, deaths = {}, {}, {}
local to_retry, to_attempts = {}, {}
local reply = { '' }
local has_due_successor = false

-- Decides what becomes of a job that has a payload and no successor, and plans its writes.
local function decide(id, token)
  local attempts = attempts_of(id)
  local function retry_with(counted)
    if counted ~= attempts then
      to_attempts[#to_attempts + 1] = id
      to_attempts[#to_attempts + 1] = whole(counted)
    end
    to_retry[#to_retry + 1] = whole(now_ms + delay)
    to_retry[#to_retry + 1] = id
    return 'retry'
  end
  if tonumber(token) <= outage_until then return retry_with(attempts) end
  if is_ahead(token) then return retry_with(attempts % SUSPECT + SUSPECT) end
  local options = redis.call('HGET', OPTS, id)
  local allowed = option(options, 'max_crashes', 'number') or crashes_max
  if not may_bury or crashes_in(attempts) + 1 < allowed then
    return retry_with(attempts % SUSPECT + CRASH)
  end
  if info == '' then return 'discarded' end
  deaths[#deaths + 1] = {
    id = id, payload = redis.call('HGET', JOBS, id), options = options, info = info,
  }
  return 'dead'
end

for i, id in ipairs(ids) do
  local word
  if successors[i] then
    word = 'superseded'
    if math.floor(tonumber(successors[i])) <= now_ms then has_due_successor = true end
  elseif redis.call('HEXISTS', JOBS, id) == 0 then
    word = 'cancelled'
  else
    word = decide(id, tokens[i])
  end
  if word ~= 'retry' then
    to_forget[#to_forget + 1] = id
    if not successors[i] then to_delete[#to_delete + 1] = id end
  end
  reply[2 * i], reply[2 * i + 1] = id, word
end

expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS)
expect_zsets(RETRY, HOLDERS)
expect_permits()
if #deaths > 0 then expect_dead() end
redis.call('ZREM', UNACK, unpack(ids))
bury(deaths)
forget_failures(to_forget)
if #to_delete > 0 then
  redis.call('HDEL', JOBS, unpack(to_delete))
  redis.call('HDEL', OPTS, unpack(to_delete))
end
if #to_attempts > 0 then redis.call('HSET', ATTEMPTS, unpack(to_attempts)) end
if #to_retry > 0 then redis.call('ZADD', RETRY, unpack(to_retry)) end
if has_permits then
  for _, id in ipairs(limits.relaxed and ids or to_forget) do return_permit(id) end
end
if limits.waiting then redis.call('HDEL', META, 'waiting') end
if limits.waiting or admitted > 0 or has_due_successor then wake(now_ms) end
if #to_retry > 0 then wake(now_ms + delay) end
-- An expired lease call is a new call when it is repeated: it need not be remembered.
redis.call('ZREMRANGEBYSCORE', HOLDERS, '-inf', whole(now_us))
reply[1] = next_expiry()
return reply
