-- Removes follow-ups that were pushed from entries of the outbox. An entry without follow-ups is deleted.
-- The others keep their numbers. Several relays may do this to one entry.
--
-- KEYS  outbox
-- ARGV  for each entry its field, and the numbers of the follow-ups to remove, each before a space (1 to
--       100 entries)
-- Returns for each entry 1, or 0 if it is not of this form and stays as it is
-- @include now

if #ARGV < 2 or #ARGV > 200 or #ARGV % 2 ~= 0 then return refuse('trim takes 1 to 100 entries') end

-- The follow-ups of a value that are not removed, or nil if it is not of this form. Each is a line with its
-- number and the bytes of its payload, and the payload.
local function rest_of(value, removed)
  local kept = {}
  local _, space = string.find(value, '^%d+ ')
  if not space then return nil end
  local at = space + 1
  while at <= #value do
    local _, last, number, bytes = string.find(value, '^(%d+) (%d+) [^\n]*\n', at)
    if not last or last + tonumber(bytes) > #value then return nil end
    if not removed[number] then kept[#kept + 1] = string.sub(value, at, last + tonumber(bytes)) end
    at = last + tonumber(bytes) + 1
  end
  return table.concat(kept)
end

local reply = {}
for i = 1, #ARGV, 2 do
  local field, removed = ARGV[i], {}
  for number in string.gmatch(ARGV[i + 1], '%d+') do removed[number] = true end
  local value = redis.call('HGET', OUTBOX, field)
  local rest = value and rest_of(value, removed)
  if rest == '' then
    redis.call('HDEL', OUTBOX, field)
  elseif rest then
    redis.call('HSET', OUTBOX, field, string.match(value, '^%d+ ') .. rest)
  end
  reply[#reply + 1] = (rest or not value) and 1 or 0
end
return reply
