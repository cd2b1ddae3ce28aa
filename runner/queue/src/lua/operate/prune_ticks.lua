-- Deletes the state of schedules that no runner has had for the topic's retention, and for a month at least.
-- It looks at some fields at random: a call is bounded, and calls from time to time find all.
--
-- KEYS  ticks meta
-- ARGV  n (1 to 1000) fields
-- Returns the number of schedules
-- @include now
-- @include number
-- @include types
local MONTH_MS = 2592000000
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('prune takes 1 to 1000 fields') end
expect_hashes(TICKS)
local fields = redis.call('HRANDFIELD', TICKS, n)
if #fields == 0 then return 0 end
local retention = read_whole(redis.call('HGET', META, 'retention'), 0, TIME_MAX) or MONTH_MS
local oldest = now_ms - math.max(retention, MONTH_MS)
local removed, unseen, looked_at = 0, {}, {}
for _, field in ipairs(fields) do
  local schedule = string.match(field, '^([^:]*)')
  if not looked_at[schedule] then
    looked_at[schedule] = true
    local seen = read_whole(redis.call('HGET', TICKS, schedule .. ':seen'), 0, TIME_MAX)
    if not seen then
      unseen[#unseen + 1] = schedule
    elseif seen < oldest then
      redis.call('HDEL', TICKS, schedule, schedule .. ':line', schedule .. ':run', schedule .. ':seen')
      removed = removed + 1
    end
  end
end
-- Its time counts from now on. A full Redis refuses this, which can wait.
for _, schedule in ipairs(unseen) do redis.pcall('HSET', TICKS, schedule .. ':seen', whole(now_ms)) end
return removed
