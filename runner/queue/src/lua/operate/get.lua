-- Returns everything that is known of one id; read-only.
--
-- KEYS  pending ready blocked:at unack retry jobs opts attempts errors turns:of holders unique dead dead:jobs dead:opts dead:info done done:jobs done:info done:result
-- ARGV  id
-- Returns name and value of each field
-- @include now
-- @include tokens
local id = ARGV[1]

if not id or #ARGV > 1 then return refuse('get takes one id') end
local answer = { 'now', whole(now_ms) }
local function tell(name, value)
  if value then answer[#answer + 1], answer[#answer + 2] = name, value end
end

tell('pending', redis.call('ZSCORE', PENDING, id))
tell('ready', redis.call('ZSCORE', READY, id))
tell('retry', redis.call('ZSCORE', RETRY, id))
local place = redis.call('HGET', BLOCKED_AT, id)
if place then tell('blocked', string.match(place, '^[^%z]*%z(%d+)%z') or '') end
local token = redis.call('ZSCORE', UNACK, id)
if token then
  tell('unack', token)
  -- A call is noted under its even token.
  local noted = is_ahead(token) and whole(tonumber(token) - 1) or token
  tell('call', redis.call('ZRANGEBYSCORE', HOLDERS, noted, noted, 'LIMIT', 0, 1)[1])
end
tell('payload', redis.call('HGET', JOBS, id))
tell('options', redis.call('HGET', OPTS, id))
tell('attempts', redis.call('HGET', ATTEMPTS, id))
tell('error', redis.call('HGET', ERRORS, id))
tell('turn', redis.call('HGET', TURNS_OF, id))

local died = redis.call('ZSCORE', DEAD, id)
if died then
  tell('dead', died)
  tell('dead:payload', redis.call('HGET', DEAD_JOBS, id))
  tell('dead:options', redis.call('HGET', DEAD_OPTS, id))
  tell('dead:info', redis.call('HGET', DEAD_INFO, id))
end
local acked = redis.call('ZSCORE', DONE, id)
if acked then
  tell('done', acked)
  tell('done:payload', redis.call('HGET', DONE_JOBS, id))
  tell('done:info', redis.call('HGET', DONE_INFO, id))
  tell('done:result', redis.call('HGET', DONE_RESULT, id))
end
local held_until = redis.call('ZSCORE', UNIQUE, id)
if held_until and tonumber(held_until) > now_ms then tell('held', held_until) end
return answer
