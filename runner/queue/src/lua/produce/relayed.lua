-- The follow-ups of these marks have left their outbox: nobody who read them later can push them, and
-- whoever read them before is too late in a minute. Then the marks may go.
--
-- KEYS  inbox
-- ARGV  marks (1 to 100)
-- Returns the count of marks found
-- @include now
local KEPT_MS = 120000
if #ARGV < 1 or #ARGV > 100 then return refuse('relayed takes 1 to 100 marks') end
local found = 0
for _, mark in ipairs(ARGV) do
  if redis.call('ZSCORE', INBOX, mark) then
    found = found + 1
    redis.call('ZADD', INBOX, whole(now_ms + KEPT_MS), mark)
  end
end
return found
