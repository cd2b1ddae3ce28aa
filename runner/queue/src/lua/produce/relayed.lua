-- The follow-ups of these marks have left their outbox: later readers cannot push them, and earlier readers
-- are too late in one minute. After that the marks may be deleted.
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
