-- Pauses a topic for all runners, or resumes it and wakes sleeping runners.
--
-- KEYS  meta
-- ARGV  pause | resume
-- Returns 1 if that changed anything, else 0
-- @include now
-- @include wake
local action = ARGV[1]

if action ~= 'pause' and action ~= 'resume' then return refuse('pause takes pause or resume') end
local paused = redis.call('HGET', META, 'paused')
if (action == 'pause') == (paused and paused ~= '0' or false) then return 0 end
if action == 'pause' then
  redis.call('HSET', META, 'paused', 1)
else
  redis.call('HDEL', META, 'paused', 'wake')
  wake(now_ms)
end
return 1
