-- Keeps what the last attempts of dead jobs read from the host. A job that is not dead any more is left out.
--
-- KEYS  dead recordings recordings:at
-- ARGV  most (how many recordings the shard keeps: 1 to 1000), then id, recording (1 to 1000 pairs)
-- Returns how many were kept
-- @include now
-- @include number
-- @include types
local most = read_whole(ARGV[1], 1, BATCH_MAX)

if not most then return refuse('a shard keeps 1 to 1000 recordings') end
if #ARGV < 3 or #ARGV > 2 * BATCH_MAX + 1 or #ARGV % 2 == 0 then
  return refuse('record takes 1 to 1000 ids, each with its recording')
end
expect_zsets(DEAD, RECORDINGS_AT)
expect_hashes(RECORDINGS)
local kept = 0
for at = 2, #ARGV, 2 do
  -- The time of the death: a later death of the id makes the recording invalid.
  local died_at = redis.call('ZSCORE', DEAD, ARGV[at])
  if died_at then
    redis.call('HSET', RECORDINGS, ARGV[at], ARGV[at + 1])
    redis.call('ZADD', RECORDINGS_AT, died_at, ARGV[at])
    kept = kept + 1
  end
end
local excess = math.min(redis.call('ZCARD', RECORDINGS_AT) - most, BATCH_MAX)
if excess > 0 then
  local oldest = redis.call('ZRANGE', RECORDINGS_AT, 0, excess - 1)
  redis.call('ZREM', RECORDINGS_AT, unpack(oldest))
  redis.call('HDEL', RECORDINGS, unpack(oldest))
end
return kept
