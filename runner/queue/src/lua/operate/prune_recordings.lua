-- Deletes recordings whose job is not dead any more, or has died again.
--
-- KEYS  dead recordings recordings:at
-- ARGV  n (1 to 1000): how many of the oldest are examined
-- Returns the number of deleted recordings
-- @include now
-- @include number
-- @include types
local n = read_whole(ARGV[1], 1, BATCH_MAX)

if not n then return refuse('prune examines 1 to 1000 recordings') end
expect_zsets(DEAD, RECORDINGS_AT)
expect_hashes(RECORDINGS)
local found = redis.call('ZRANGE', RECORDINGS_AT, 0, n - 1, 'WITHSCORES')
if #found == 0 then return 0 end
local ids = {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
local stale = {}
for i, died_at in ipairs(redis.call('ZMSCORE', DEAD, unpack(ids))) do
  if died_at ~= found[2 * i] then stale[#stale + 1] = ids[i] end
end
if #stale == 0 then return 0 end
redis.call('ZREM', RECORDINGS_AT, unpack(stale))
redis.call('HDEL', RECORDINGS, unpack(stale))
return #stale
