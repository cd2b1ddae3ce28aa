-- Writes to the store that are repeated after a lost reply. A caller makes one write at a time and numbers
-- its writes. `kv:calls` holds its last number, the time, and the reply: the same write then gets that reply
-- and is not carried out again, and an earlier one that arrives late is not carried out.
-- @include now
local CALLS_KEPT_MS = 3600000

-- The reply to a write that was carried out before, 'stale' for one before the caller's last, or nil.
local function earlier_reply(caller, number)
  if not caller then return nil end
  local last = redis.call('HGET', KV_CALLS, caller)
  local last_number, reply = string.match(last or '', '^(%d+) %d+ (.*)$')
  if not last_number or tonumber(last_number) < tonumber(number) then return nil end
  return last_number == number and reply or 'stale'
end

-- Keeps the reply to a write, if it has a caller, and forgets some callers that are gone.
local function keep_reply(caller, number, reply)
  if not caller then return reply end
  local some = redis.call('HRANDFIELD', KV_CALLS, 2, 'WITHVALUES')
  for i = 1, #some, 2 do
    local at = tonumber(string.match(some[i + 1], '^%d+ (%d+) ') or 0)
    if at + CALLS_KEPT_MS < now_ms then redis.call('HDEL', KV_CALLS, some[i]) end
  end
  redis.call('HSET', KV_CALLS, caller, number .. ' ' .. whole(now_ms) .. ' ' .. reply)
  redis.call('PEXPIRE', KV_CALLS, CALLS_KEPT_MS)
  return reply
end

-- True for a caller and a number, or for neither.
local function is_caller(caller, number)
  return not caller and not number or caller ~= '' and string.find(number or '', '^%d+$') and #number <= 15
end
