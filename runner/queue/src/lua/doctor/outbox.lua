-- Moves outbox entries that cannot be read aside, so that nothing is lost: to the hash
-- `…:outbox:broken:<unix ms>`, in the same slot.
--
-- KEYS  outbox
-- ARGV  field, value as it was read for each entry (1 to 1000)
-- Returns the key they went to, then 1 or 0 for each: 0 if it has changed since
-- @include now

if #ARGV < 2 or #ARGV > 2000 or #ARGV % 2 ~= 0 then return refuse('the doctor moves 1 to 1000 entries') end
local broken = OUTBOX .. ':broken:' .. whole(now_ms)
local reply = { broken }
for i = 1, #ARGV, 2 do
  local is_same = redis.call('HGET', OUTBOX, ARGV[i]) == ARGV[i + 1]
  if is_same then
    redis.call('HSET', broken, ARGV[i], ARGV[i + 1])
    redis.call('HDEL', OUTBOX, ARGV[i])
  end
  reply[#reply + 1] = is_same and 1 or 0
end
return reply
