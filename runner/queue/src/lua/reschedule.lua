-- Changes when a waiting job falls due; `0` runs it now.
--
-- KEYS  pending ready unack retry attempts meta
-- ARGV  wake channel, id, due
-- Returns the stage it waits in now (pending, ready, retry), or leased, bad_due, none
local PENDING, READY, UNACK = KEYS[1], KEYS[2], KEYS[3]
local RETRY, ATTEMPTS, META = KEYS[4], KEYS[5], KEYS[6]
local channel, id, due = ARGV[1], ARGV[2], read_due(ARGV[3] or '')

if not due then return 'bad_due' end
local leased = redis.call('ZSCORE', UNACK, id)
local stage
if redis.call('ZSCORE', PENDING, id) then
  stage = (due <= now_ms and not leased) and 'ready' or 'pending'
  redis.call('ZREM', RETRY, id)
  redis.call('ZREM', READY, id)
  if not leased then redis.call('HDEL', ATTEMPTS, id) end
elseif leased then
  return 'leased'
elseif redis.call('ZSCORE', READY, id) or redis.call('ZSCORE', RETRY, id) then
  if due <= now_ms then
    stage = 'ready'
  else
    stage = redis.call('HEXISTS', ATTEMPTS, id) == 1 and 'retry' or 'pending'
  end
else
  return 'none'
end
local keys = { pending = PENDING, ready = READY, retry = RETRY }
for name, key in pairs(keys) do
  if name ~= stage then redis.call('ZREM', key, id) end
end
redis.call('ZADD', keys[stage], whole(due), id)
if not leased or due > now_ms then wake(META, channel, due) end
return stage
