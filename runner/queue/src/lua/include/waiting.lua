-- True if an id waits for a runner, in any state.
local function waits(id)
  return redis.call('ZSCORE', PENDING, id) or redis.call('ZSCORE', READY, id)
    or redis.call('ZSCORE', RETRY, id) or redis.call('HEXISTS', BLOCKED_AT, id) == 1
end
