-- Whether the time of a value in the topic's store is over. It is not there any more then, for any verb,
-- although it may not be taken away yet.
-- @include now
local function is_over(name)
  local at = redis.call('ZSCORE', KV_AT, name)
  return at and tonumber(at) <= now_ms
end
