-- Counts the permits of every key again. It must see all of them at once, so it refuses if there are too
-- many.
--
-- KEYS  opts ready meta blocked blocked:at turns turns:of
-- ARGV  cursor (0), count (unused), repair, permits it counts at most
-- Returns 0, 0, then kind, key, detail, what was done or '' for each finding; or the word `many`
-- @include now
-- @include number
-- @include wake
-- @include permits
-- @include doctor
-- @include types
local most = read_whole(ARGV[4], 1, 100000)

if not most then return refuse('the doctor counts 1 to 100000 permits') end
if redis.call('HLEN', TURNS_OF) > most or redis.call('HLEN', TURNS) > most then return { 'many', 0 } end
expect_hashes(OPTS, BLOCKED_AT)
expect_zsets(READY, BLOCKED)
local held, keys = {}, {}
local permits = redis.call('HGETALL', TURNS_OF)
for i = 2, #permits, 2 do
  local space = string.find(permits[i], ' ', 1, true)
  local key = space and string.sub(permits[i], space + 1) or ''
  if key ~= '' then held[key] = (held[key] or 0) + 1 end
end
local counts = redis.call('HGETALL', TURNS)
local counted = {}
for i = 1, #counts, 2 do
  keys[#keys + 1] = counts[i]
  counted[counts[i]] = counts[i + 1]
end
for key in pairs(held) do
  if not counted[key] then keys[#keys + 1] = key end
end
for _, key in ipairs(keys) do
  local right, found = whole(held[key] or 0), counted[key] or '0'
  if found ~= right or (right == '0' and counted[key]) then
    if find('wrong_permits', key, found .. ' counted, ' .. right .. ' held', 'counted anew') then
      if right == '0' then redis.call('HDEL', TURNS, key) else redis.call('HSET', TURNS, key, right) end
      advance(key)
    end
  end
end
if admitted > 0 then wake(now_ms) end
return reply
