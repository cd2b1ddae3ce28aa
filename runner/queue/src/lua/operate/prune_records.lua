-- Deletes expired records: reserved ids, and dedup records of relayed follow-ups.
--
-- KEYS  unique inbox
-- ARGV  n (1 to 1000), of each kind
-- Returns the number of ids, and of follow-ups
-- @include now
-- @include number
-- @include types
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('prune takes 1 to 1000 records of each kind') end
expect_zsets(UNIQUE, INBOX)
local function forget(records)
  local over = redis.call('ZRANGEBYSCORE', records, '-inf', whole(now_ms), 'LIMIT', 0, n)
  if #over > 0 then redis.call('ZREM', records, unpack(over)) end
  return #over
end
return { forget(UNIQUE), forget(INBOX) }
