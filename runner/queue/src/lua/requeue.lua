-- Gives dead jobs another life: due now, with their options and without their attempts. One whose id
-- lives again stays dead.
--
-- KEYS  jobs opts pending ready unack retry attempts meta dead dead:jobs dead:opts dead:info
-- ARGV  wake channel, ids (1 to 1000)
-- Returns a word for each id: ok, exists, none
local JOBS, OPTS, PENDING, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNACK, RETRY, ATTEMPTS, META = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local DEAD, DEAD_JOBS, DEAD_OPTS, DEAD_INFO = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local channel = ARGV[1]

if #ARGV < 2 or #ARGV > 1001 then return refuse('requeue takes 1 to 1000 ids') end
local words, requeued = {}, 0
for i = 2, #ARGV do
  local id = ARGV[i]
  local payload = redis.call('HGET', DEAD_JOBS, id)
  local waits = redis.call('ZSCORE', PENDING, id) or redis.call('ZSCORE', READY, id)
    or redis.call('ZSCORE', RETRY, id) or redis.call('ZSCORE', UNACK, id)
  if not payload or not redis.call('ZSCORE', DEAD, id) then
    words[i - 1] = 'none'
  elseif waits then
    words[i - 1] = 'exists'
  else
    words[i - 1] = 'ok'
    requeued = requeued + 1
    local options = redis.call('HGET', DEAD_OPTS, id)
    redis.call('HSET', JOBS, id, payload)
    if options then redis.call('HSET', OPTS, id, options) else redis.call('HDEL', OPTS, id) end
    redis.call('HDEL', ATTEMPTS, id)
    redis.call('ZADD', READY, whole(now_ms), id)
    redis.call('ZREM', DEAD, id)
    redis.call('HDEL', DEAD_JOBS, id)
    redis.call('HDEL', DEAD_OPTS, id)
    redis.call('HDEL', DEAD_INFO, id)
  end
end
if requeued > 0 then wake(META, channel, now_ms) end
return words
