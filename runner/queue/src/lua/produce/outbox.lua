-- Reads some entries of the outbox; read-only.
--
-- KEYS  outbox
-- ARGV  entries (1 to 1000), bytes (one entry is always read), then fields to skip (0 to 1000)
-- Returns now in unix ms, then field, value for each entry
-- @include now
-- @include number
local n, bytes_max = read_whole(ARGV[1], 1, BATCH_MAX), read_whole(ARGV[2], 1, TIME_MAX)
local skips = #ARGV - 2

if not n or not bytes_max then return refuse('outbox reads 1 to 1000 entries, up to some bytes') end
if skips > BATCH_MAX then return refuse('outbox skips at most 1000 entries') end
local skipped = {}
for at = 3, #ARGV do skipped[ARGV[at]] = true end
local reply, bytes = { whole(now_ms) }, 0
for _, field in ipairs(redis.call('HRANDFIELD', OUTBOX, n + skips)) do
  if not skipped[field] then
    bytes = bytes + redis.call('HSTRLEN', OUTBOX, field)
    if #reply > 2 * n or bytes > bytes_max and #reply > 1 then break end
    reply[#reply + 1] = field
    reply[#reply + 1] = redis.call('HGET', OUTBOX, field)
  end
end
return reply
