-- Removes jobs before they run. Of a leased one the payload goes, so that its verdict is not retried;
-- it keeps its key's turn until it ends.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of
-- ARGV  ids (1 to 1000)
-- Returns a word for each id: cancelled, leased, none
-- @include now
-- @include failures
-- @include wake
-- @include turns
if #ARGV < 1 or #ARGV > BATCH_MAX then return refuse('cancel takes 1 to 1000 ids') end
local words, idle = {}, {}
for i, id in ipairs(ARGV) do
  local removed = redis.call('ZREM', PENDING, id) + redis.call('ZREM', READY, id)
    + redis.call('ZREM', RETRY, id) + redis.call('HDEL', JOBS, id)
  if gated and leave_line(id) then removed = removed + 1 end
  redis.call('HDEL', OPTS, id)
  if redis.call('ZSCORE', UNACK, id) then
    words[i] = 'leased'
  else
    idle[#idle + 1] = id
    words[i] = removed > 0 and 'cancelled' or 'none'
  end
end
forget_failures(idle)
if gated then
  for _, id in ipairs(idle) do leave_turn(id) end
  if let_through > 0 then wake(now_ms) end
end
return words
