-- Pushes the follow-up jobs of another topic's acks, each once however often it is called: a dedup record
-- in `inbox` stands for each push. A call too long after its entries were read is refused, so that a record
-- is needed only for a while after its entry has left the outbox.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of unique inbox
-- ARGV  not after (unix ms), then record, id, due, payload, options for each job (1 to 100)
-- Returns late; or a word for each job: pushed, kept, known, bad_due
-- @include now
-- @include number
-- @include due
-- @include failures
-- @include waiting
-- @include enter_stage
-- @include types
local not_after = read_whole(ARGV[1], 0, TIME_MAX)
local count = (#ARGV - 1) / 5
local WEEK_MS, RELEASED_MS = 604800000, 120000

if not not_after or count < 1 or count > 100 or count ~= math.floor(count) then
  return refuse('relay takes a time and 1 to 100 jobs of record, id, due, payload and options')
end
if now_ms > not_after then return 'late' end
expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS, BLOCKED_AT)
expect_zsets(PENDING, READY, UNACK, RETRY, UNIQUE, INBOX)
expect_permits()

local function push(id, due, payload, options)
  local leased = redis.call('ZSCORE', UNACK, id)
  if waits(id) or (leased and redis.call('HEXISTS', JOBS, id) == 1) then return 'kept' end
  local held_until = redis.call('ZSCORE', UNIQUE, id)
  if held_until and tonumber(held_until) > now_ms then return 'kept' end
  redis.call('HSET', JOBS, id, payload)
  if options == '' then redis.call('HDEL', OPTS, id) else redis.call('HSET', OPTS, id, options) end
  if leased then
    -- The job was cancelled while it runs: this one follows it.
    redis.call('ZADD', PENDING, pending_score(due, id), id)
  else
    forget_failures({ id })
    enter_stage(id, due, options)
  end
  return 'pushed'
end

-- True if a dedup record says that this follow-up was pushed. Unless the record was released, its entry is still in
-- the outbox: then it is kept for a week from now, even if it has expired.
local function is_known(record)
  local expiry = redis.call('ZSCORE', INBOX, record)
  if not expiry then return false end
  local left = tonumber(expiry) - now_ms
  if left > RELEASED_MS or left <= 0 then redis.call('ZADD', INBOX, whole(now_ms + WEEK_MS), record) end
  return true
end

local words = {}
for i = 1, count do
  local at = 5 * i - 3
  local due = read_due(ARGV[at + 2])
  if is_known(ARGV[at]) then
    words[i] = 'known'
  elseif not due then
    words[i] = 'bad_due'
  else
    words[i] = push(ARGV[at + 1], due, ARGV[at + 3], ARGV[at + 4])
    redis.call('ZADD', INBOX, whole(now_ms + WEEK_MS), ARGV[at])
  end
end
local over = redis.call('ZRANGEBYSCORE', INBOX, '-inf', whole(now_ms), 'LIMIT', 0, BATCH_MAX)
if #over > 0 then redis.call('ZREM', INBOX, unpack(over)) end
return words
