-- Lists the jobs of one state, one page a call, the next ones first; the latest of the dead and the done
-- first. A page starts after the last entry of the page before, whether that entry still exists or not.
--
-- KEYS  pending ready blocked unack retry dead done opts dead:opts attempts errors dead:info done:info
-- ARGV  state, score and member of the last entry seen (or '' and ''), n (1 to 1000), start of the id or
--       '', name and value of a header (or '' and '')
-- A call looks at n entries, with a start or a header at 1,000; fewer when their texts have 4 MiB.
-- Returns more (0 or 1), score and member of the last entry looked at (or '' and ''), how many were looked
-- at, and member, score, attempts and info (or '' and '') for each of at most n that match
-- @include now
-- @include number
-- @include option
-- @include rank
local LOOKED_AT_MAX = 1000
-- Bytes of options and infos that one call reads, unless the first entry alone has more; and options read
-- at once.
local BYTES_MAX, PART = 4194304, 32
local states = {
  pending = { entries = PENDING, options = OPTS },
  ready = { entries = READY, options = OPTS },
  blocked = { entries = BLOCKED, options = OPTS },
  unack = { entries = UNACK, options = OPTS, infos = ERRORS },
  retry = { entries = RETRY, options = OPTS, infos = ERRORS },
  dead = { entries = DEAD, options = DEAD_OPTS, infos = DEAD_INFO, newest = true },
  done = { entries = DONE, infos = DONE_INFO, newest = true },
}
local state, seen_at, seen = states[ARGV[1] or ''], ARGV[2] or '', ARGV[3] or ''
local n, start, name, value = read_whole(ARGV[4], 1, BATCH_MAX), ARGV[5] or '', ARGV[6] or '', ARGV[7] or ''

if not state or #ARGV > 7 then return refuse('a list takes a known state and seven arguments') end
local seen_score = tonumber(seen_at)
if seen_at ~= '' and (not seen_score or seen_score ~= seen_score) then
  return refuse('the cursor of a list is a score and a member')
end
if not n then return refuse('a list takes 1 to 1000 jobs') end
if name ~= '' and not state.options then return refuse('done jobs keep no headers') end
local entries, newest, is_filtered = state.entries, state.newest, start ~= '' or name ~= ''

local first, past = 0, redis.call('ZCARD', entries)
if seen_at ~= '' and newest then past = rank_of(entries, seen_at, seen) end
if seen_at ~= '' and not newest then first = rank_after(entries, seen_at, seen) end
local looks = is_filtered and LOOKED_AT_MAX or n
local from = newest and math.max(first, past - looks) or first
local to = newest and past - 1 or math.min(past, first + looks) - 1
if from > to then return { 0, '', '', 0 } end

local found = redis.call('ZRANGE', entries, from, to, 'WITHSCORES')
local count = #found / 2
local members, scores, ids = {}, {}, {}
for i = 1, count do
  local at = newest and count - i + 1 or i
  members[i], scores[i] = found[2 * at - 1], found[2 * at]
  -- A member of `blocked` is key, due time, number and id.
  ids[i] = entries == BLOCKED and string.match(members[i], '^[^%z]*%z%d*%z%d*%z(.*)$') or members[i]
end
local part
local function options_at(i)
  if name == '' then return '' end
  if i % PART == 1 then part = redis.call('HMGET', state.options, unpack(ids, i, math.min(i + PART - 1, count))) end
  return part[(i - 1) % PART + 1] or ''
end
local function has_header(options)
  if name == '' then return true end
  local headers = string.find(options, '"' .. name .. '"', 1, true) and option(options, 'headers', 'table')
  return headers and headers[name] == value
end
local reply, listed, looked_at, bytes = { 0, '', '', 0 }, 0, 0, 0
for i = 1, count do
  local options = options_at(i)
  local matches = string.sub(ids[i], 1, #start) == start and has_header(options)
  local info = matches and state.infos and redis.call('HGET', state.infos, ids[i]) or ''
  bytes = bytes + #options + #info
  if bytes > BYTES_MAX and i > 1 then break end
  looked_at = i
  if matches then
    reply[#reply + 1] = members[i]
    reply[#reply + 1] = scores[i]
    reply[#reply + 1] = redis.call('HGET', ATTEMPTS, ids[i]) or ''
    reply[#reply + 1] = info
    listed = listed + 1
    if listed == n then break end
  end
end
local left = newest and from - first or past - 1 - to
reply[1] = (looked_at < count or left > 0) and 1 or 0
reply[2], reply[3], reply[4] = scores[looked_at], members[looked_at], looked_at
return reply
