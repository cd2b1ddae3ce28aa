-- Keeps to the topic's `max_dead` where jobs are added to those that ended. Removes the oldest above it: as
-- many as were added, and some of those that were too many before.
-- @include number
local EXCESS_MAX = 100
local function keep_newest(ended, parts, added)
  local most = read_whole(redis.call('HGET', META, 'max_dead'), 0, TIME_MAX)
  local excess = most and math.min(redis.call('ZCARD', ended) - most, added + EXCESS_MAX, BATCH_MAX) or 0
  if excess < 1 then return end
  local oldest = redis.call('ZRANGE', ended, 0, excess - 1)
  redis.call('ZREM', ended, unpack(oldest))
  for _, part in ipairs(parts) do redis.call('HDEL', part, unpack(oldest)) end
end
