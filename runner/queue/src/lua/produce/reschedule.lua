-- Changes when a waiting job falls due; `0` is now. A job whose key has no free permit stays in the key's
-- queue, in the order of its new due time.
--
-- KEYS  pending ready unack retry attempts errors opts meta blocked blocked:at turns turns:of
-- ARGV  id, due
-- Returns the stage it waits in now (pending, ready, retry, blocked), or leased, bad_due, none
-- @include now
-- @include due
-- @include limits
-- @include failures
-- @include wake
-- @include permits
-- @include enter_stage
-- @include types
local id, due = ARGV[1], read_due(ARGV[2] or '')

if not due then return 'bad_due' end
local leased = redis.call('ZSCORE', UNACK, id)
local newer = redis.call('ZSCORE', PENDING, id)
local tried = redis.call('ZSCORE', RETRY, id) or redis.call('ZSCORE', READY, id)
  or (has_permits and redis.call('HEXISTS', BLOCKED_AT, id) == 1)
if not newer and leased then return 'leased' end
if not newer and not tried then return 'none' end

expect_hashes(OPTS, ATTEMPTS, ERRORS)
expect_zsets(READY, RETRY)
expect_permits()
redis.call('ZREM', PENDING, id)
redis.call('ZREM', READY, id)
redis.call('ZREM', RETRY, id)
if has_permits then leave_queue(id) end
-- The job in pending is a newer push than what else has its id.
if newer and not leased then forget_failures({ id }) end

if leased or (due > now_ms and redis.call('HEXISTS', ATTEMPTS, id) == 0) then
  redis.call('ZADD', PENDING, pending_score(due, id), id)
  if has_permits and not leased then return_permit(id) end
  if not leased or due > now_ms then wake(due) end
  if admitted > 0 then wake(now_ms) end
  return 'pending'
end
if due > now_ms then
  redis.call('ZADD', RETRY, whole(due), id)
  if has_permits and limits.relaxed then return_permit(id) end
  wake(admitted > 0 and now_ms or due)
  return 'retry'
end
local stage = admit(id, due, redis.call('HGET', OPTS, id))
if stage == 'ready' or admitted > 0 then wake(now_ms) end
return stage
