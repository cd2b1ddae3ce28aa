-- Returns everything that is known of one id; read-only.
--
-- KEYS  pending ready blocked:at unack retry jobs opts attempts errors turns:of holders unique dead dead:jobs dead:opts dead:info done done:jobs done:info done:result
-- ARGV  id
-- Returns name and value of each field
-- @include now
-- @include tokens
local id = ARGV[1]

if not id or #ARGV > 1 then return refuse('get takes one id') end
local reply = { 'now', whole(now_ms) }
local function add(name, value)
  if value then reply[#reply + 1], reply[#reply + 2] = name, value end
end

add('pending', redis.call('ZSCORE', PENDING, id))
add('ready', redis.call('ZSCORE', READY, id))
add('retry', redis.call('ZSCORE', RETRY, id))
local member = redis.call('HGET', BLOCKED_AT, id)
if member then add('blocked', string.match(member, '^[^%z]*%z(%d+)%z') or '') end
local token = redis.call('ZSCORE', UNACK, id)
if token then
  add('unack', token)
  -- A call is noted under its even token.
  local call_token = is_ahead(token) and whole(tonumber(token) - 1) or token
  add('call', redis.call('ZRANGEBYSCORE', HOLDERS, call_token, call_token, 'LIMIT', 0, 1)[1])
end
add('payload', redis.call('HGET', JOBS, id))
add('options', redis.call('HGET', OPTS, id))
add('attempts', redis.call('HGET', ATTEMPTS, id))
add('error', redis.call('HGET', ERRORS, id))
add('permit', redis.call('HGET', TURNS_OF, id))

local died_at = redis.call('ZSCORE', DEAD, id)
if died_at then
  add('dead', died_at)
  add('dead:payload', redis.call('HGET', DEAD_JOBS, id))
  add('dead:options', redis.call('HGET', DEAD_OPTS, id))
  add('dead:info', redis.call('HGET', DEAD_INFO, id))
end
local acked_at = redis.call('ZSCORE', DONE, id)
if acked_at then
  add('done', acked_at)
  add('done:payload', redis.call('HGET', DONE_JOBS, id))
  add('done:info', redis.call('HGET', DONE_INFO, id))
  add('done:result', redis.call('HGET', DONE_RESULT, id))
end
local held_until = redis.call('ZSCORE', UNIQUE, id)
if held_until and tonumber(held_until) > now_ms then add('held', held_until) end
return reply
