-- Returns how soon a shard has work for a runner, from ready or due jobs, invalid due times, the next due
--          time and the next expiry of a lease; read-only.
--
-- KEYS  pending ready unack retry meta
-- ARGV  none
-- Returns ms until there is work (0: now), or '' if nothing is known to come
-- @include now

local soonest
local function consider(ms)
  ms = math.min(TIME_MAX, math.max(0, math.ceil(ms)))
  if not soonest or ms < soonest then soonest = ms end
end
local paused = redis.call('HGET', META, 'paused')
if redis.call('EXISTS', READY) == 1 and (not paused or paused == '0') then consider(0) end
for _, stage in ipairs({ PENDING, RETRY }) do
  local first = redis.call('ZRANGE', stage, 0, 0, 'WITHSCORES')
  if first[2] then consider(math.floor(tonumber(first[2])) - now_ms) end
end
local last = redis.call('ZRANGE', PENDING, -1, -1, 'WITHSCORES')
if last[2] and tonumber(last[2]) > DUE_MAX then consider(0) end
local lease = redis.call('ZRANGE', UNACK, 0, 0, 'WITHSCORES')
if lease[2] then consider((tonumber(lease[2]) - now_us) / 1000) end
return soonest and whole(soonest) or ''
