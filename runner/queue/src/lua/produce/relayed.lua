-- The follow-ups of these dedup records have left their outbox: later readers cannot push them, and earlier readers
-- are too late in one minute. After that the dedup records may be deleted.
--
-- KEYS  inbox
-- ARGV  dedup records (1 to 100)
-- Returns the count of dedup records found
-- @include now
local KEPT_MS = 120000
if #ARGV < 1 or #ARGV > 100 then return refuse('relayed takes 1 to 100 dedup records') end
local found = 0
for _, record in ipairs(ARGV) do
  if redis.call('ZSCORE', INBOX, record) then
    found = found + 1
    redis.call('ZADD', INBOX, whole(now_ms + KEPT_MS), record)
  end
end
return found
