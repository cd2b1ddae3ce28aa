-- Lists dead or done jobs of a span of time, one page a call. A page starts after the last entry of the
-- page before, whether that entry still exists or not.
--
-- KEYS  dead dead:info done done:info
-- ARGV  list (dead, done), order (newest, oldest), class or '', since and until in ms (0 to TIME_MAX),
--       time and id of the last entry seen (or '' and ''), n (1 to 1000)
-- A page ends early when its infos have 4 MiB.
-- Returns more (0 or 1), time and id of the last entry looked at (or '' and ''), and id, time, info
-- or '' for each of at most n that are of the class
-- @include now
-- @include number
-- @include rank
local LOOKED_AT_MAX = 1000
-- Bytes of infos that one call reads, unless the first one alone has more; and infos read at once.
local BYTES_MAX, PART = 4194304, 32
local lists = { dead = { DEAD, DEAD_INFO }, done = { DONE, DONE_INFO } }
local list, newest, class = lists[ARGV[1] or ''], ARGV[2] == 'newest', ARGV[3] or ' '
local since, latest = read_whole(ARGV[4], 0, TIME_MAX), read_whole(ARGV[5], 0, TIME_MAX)
local seen_at, seen, n = ARGV[6] or '', ARGV[7] or '', read_whole(ARGV[8], 1, BATCH_MAX)

if not list then return refuse('list takes dead or done') end
if not newest and ARGV[2] ~= 'oldest' then return refuse('the order of list is newest or oldest') end
if not string.find(class, '^[a-z_]*$') then return refuse('the class of list has letters a to z and _') end
if not since or not latest then return refuse('list takes a start and an end in ms') end
if seen_at ~= '' and not read_whole(seen_at, 0, TIME_MAX) then
  return refuse('the cursor of list is a time in ms and an id')
end
if not n then return refuse('list takes 1 to 1000 jobs') end
local entries, infos = list[1], list[2]

-- The entries of the span have the ranks from `first` to `past` - 1.
local first = redis.call('ZCOUNT', entries, '-inf', '(' .. whole(since))
local past = redis.call('ZCOUNT', entries, '-inf', whole(latest))
if seen_at ~= '' then
  if newest then
    past = math.min(past, rank_of(entries, seen_at, seen))
  else
    first = math.max(first, rank_after(entries, seen_at, seen))
  end
end
local looks = class == '' and n or LOOKED_AT_MAX
local from = newest and math.max(first, past - looks) or first
local to = newest and past - 1 or math.min(past, first + looks) - 1
if from > to then return { 0, '', '' } end

local found = redis.call('ZRANGE', entries, from, to, 'WITHSCORES')
local count = #found / 2
local ids, times = {}, {}
for i = 1, count do
  local at = newest and count - i + 1 or i
  ids[i], times[i] = found[2 * at - 1], found[2 * at]
end
local part
local function info_at(i)
  if i % PART == 1 then part = redis.call('HMGET', infos, unpack(ids, i, math.min(i + PART - 1, count))) end
  return part[(i - 1) % PART + 1] or ''
end
local reply, listed, looked_at, bytes = { 0, '', '' }, 0, 0, 0
for i = 1, count do
  local info = info_at(i)
  bytes = bytes + #info
  if bytes > BYTES_MAX and i > 1 then break end
  looked_at = i
  if class == '' or string.find(info, '"class"%s*:%s*"' .. class .. '"') then
    reply[#reply + 1] = ids[i]
    reply[#reply + 1] = times[i]
    reply[#reply + 1] = info
    listed = listed + 1
    if listed == n then break end
  end
end
local left = newest and from - first or past - 1 - to
reply[1] = (looked_at < count or left > 0) and 1 or 0
reply[2], reply[3] = times[looked_at], ids[looked_at]
return reply
