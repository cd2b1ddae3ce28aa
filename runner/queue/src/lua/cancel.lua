-- Removes jobs before they run. Of a leased one the payload goes, so that its verdict is not retried.
--
-- KEYS  jobs opts pending ready unack retry attempts
-- ARGV  ids (1 to 1000)
-- Returns a word for each id: cancelled, leased, none
local JOBS, OPTS, PENDING, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNACK, RETRY, ATTEMPTS = KEYS[5], KEYS[6], KEYS[7]

if #ARGV < 1 or #ARGV > 1000 then return refuse('cancel takes 1 to 1000 ids') end
local words = {}
for i, id in ipairs(ARGV) do
  local removed = redis.call('ZREM', PENDING, id) + redis.call('ZREM', READY, id)
    + redis.call('ZREM', RETRY, id) + redis.call('HDEL', JOBS, id)
  redis.call('HDEL', OPTS, id)
  if redis.call('ZSCORE', UNACK, id) then
    words[i] = 'leased'
  else
    redis.call('HDEL', ATTEMPTS, id)
    words[i] = removed > 0 and 'cancelled' or 'none'
  end
end
return words
