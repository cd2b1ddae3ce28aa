-- Makes dead jobs ready again: due now, with their options and without attempts. A job whose id is live
-- again stays dead.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info
-- ARGV  ids (1 to 1000)
-- Returns a word for each id: ok, exists, none
-- @include now
-- @include failures
-- @include waiting
-- @include enter_stage
-- @include bury
if #ARGV < 1 or #ARGV > BATCH_MAX then return refuse('requeue takes 1 to 1000 ids') end
expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS, BLOCKED_AT)
expect_zsets(PENDING, READY, UNACK, RETRY)
expect_dead()
expect_permits()
local words = {}
for i, id in ipairs(ARGV) do
  local payload = redis.call('HGET', DEAD_JOBS, id)
  if not payload or not redis.call('ZSCORE', DEAD, id) then
    words[i] = 'none'
  elseif waits(id) or redis.call('ZSCORE', UNACK, id) then
    words[i] = 'exists'
  else
    words[i] = 'ok'
    local options = redis.call('HGET', DEAD_OPTS, id)
    redis.call('HSET', JOBS, id, payload)
    if options then redis.call('HSET', OPTS, id, options) else redis.call('HDEL', OPTS, id) end
    forget_failures({ id })
    enter_stage(id, now_ms, options)
    redis.call('ZREM', DEAD, id)
    redis.call('HDEL', DEAD_JOBS, id)
    redis.call('HDEL', DEAD_OPTS, id)
    redis.call('HDEL', DEAD_INFO, id)
  end
end
return words
