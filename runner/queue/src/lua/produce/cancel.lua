-- Removes jobs before they run. A leased job loses its payload, so that it is not retried; it keeps its
-- key's permit until it ends.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of
-- ARGV  ids (1 to 1000)
-- Returns a word for each id: cancelled, leased, none
-- @include now
-- @include failures
-- @include wake
-- @include permits
-- @include types
if #ARGV < 1 or #ARGV > BATCH_MAX then return refuse('cancel takes 1 to 1000 ids') end
expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS)
expect_zsets(PENDING, READY, UNACK, RETRY)
expect_permits()
local words, idle = {}, {}
for i, id in ipairs(ARGV) do
  local removed = redis.call('ZREM', PENDING, id) + redis.call('ZREM', READY, id)
    + redis.call('ZREM', RETRY, id) + redis.call('HDEL', JOBS, id)
  if has_permits and leave_queue(id) then removed = removed + 1 end
  redis.call('HDEL', OPTS, id)
  if redis.call('ZSCORE', UNACK, id) then
    words[i] = 'leased'
  else
    idle[#idle + 1] = id
    words[i] = removed > 0 and 'cancelled' or 'none'
  end
end
forget_failures(idle)
if has_permits then
  for _, id in ipairs(idle) do return_permit(id) end
  if admitted > 0 then wake(now_ms) end
end
return words
