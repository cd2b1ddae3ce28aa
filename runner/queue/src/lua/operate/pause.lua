-- Pauses a topic for all runners, or resumes it and wakes those that sleep.
--
-- KEYS  meta
-- ARGV  pause | resume
-- Returns 1 if that changed anything, else 0
-- @include now
-- @include wake
local wish = ARGV[1]

if wish ~= 'pause' and wish ~= 'resume' then return refuse('pause knows pause and resume') end
local paused = redis.call('HGET', META, 'paused')
if (wish == 'pause') == (paused and paused ~= '0' or false) then return 0 end
if wish == 'pause' then
  redis.call('HSET', META, 'paused', 1)
else
  redis.call('HDEL', META, 'paused', 'wake')
  wake(now_ms)
end
return 1
