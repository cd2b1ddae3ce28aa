-- Extends leases. The new token is the old one plus the extension, made even, so a repeated call replies
-- the same. A stale token replies `lost`. The holder is noted under the new tokens, so that the lease of another
-- runner which expires in the same microsecond is no repetition.
--
-- KEYS  unack holders
-- ARGV  the runner's name, then id, token, extension in ms for each lease
-- Returns the new token, or lost, for each lease
-- @include now
-- @include number
-- @include tokens
-- @include types
local holder = ARGV[1]
local count = (#ARGV - 1) / 3

if count < 1 or count > BATCH_MAX or count ~= math.floor(count) then
  return refuse('extend takes 1 to 1000 leases of id, token and extension')
end
local ids = {}
for i = 1, count do
  local token, delta_ms = ARGV[3 * i], read_whole(ARGV[3 * i + 1], 1, LEASE_MAX_MS)
  ids[i] = ARGV[3 * i - 1]
  if not string.match(token, '^%d+$') then
    return refuse('the token of lease ' .. i .. ' is not a whole number')
  end
  if not delta_ms then
    return refuse('lease ' .. i .. ' is to be extended by 1 ms to one day')
  end
end
local scores = redis.call('ZMSCORE', UNACK, unpack(ids))
local replies, extended, renewed, held = {}, {}, {}, {}
-- The note of an expired lease may be forgotten.
local function is_noted(token)
  return held[token] or tonumber(token) <= now_us or redis.call('ZSCORE', HOLDERS, holder .. ':+' .. token)
end
expect_zsets(HOLDERS)
for i, id in ipairs(ids) do
  local token = ARGV[3 * i]
  local later = extended_token(token, tonumber(ARGV[3 * i + 1]))
  if scores[i] == token then
    extended[#extended + 1] = later
    extended[#extended + 1] = id
    renewed[#renewed + 1] = id
    held[later] = holder .. ':+' .. later
    replies[i] = later
  else
    replies[i] = scores[i] == later and is_noted(later) and later or 'lost'
  end
end
if #extended > 0 then
  -- Removing first: it is allowed when Redis is out of memory, and then the script may finish. So a full
  -- Redis ends no lease whose job still runs.
  redis.call('ZREM', UNACK, unpack(renewed))
  redis.call('ZADD', UNACK, unpack(extended))
  for later, name in pairs(held) do redis.call('ZADD', HOLDERS, later, name) end
end
return replies
