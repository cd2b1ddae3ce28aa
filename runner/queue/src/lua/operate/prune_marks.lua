-- Deletes expired marks: reserved ids, and marks of relayed follow-ups.
--
-- KEYS  unique inbox
-- ARGV  n (1 to 1000), of each kind
-- Returns the number of ids, and of follow-ups
-- @include now
-- @include number
-- @include types
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('prune takes 1 to 1000 marks of each kind') end
expect_zsets(UNIQUE, INBOX)
local function forget(marks)
  local over = redis.call('ZRANGEBYSCORE', marks, '-inf', whole(now_ms), 'LIMIT', 0, n)
  if #over > 0 then redis.call('ZREM', marks, unpack(over)) end
  return #over
end
return { forget(UNIQUE), forget(INBOX) }
