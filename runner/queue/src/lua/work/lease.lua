-- Leases the jobs that have been due longest. The first `at once` of a call start at once; the others are
-- leased ahead, under another token. A suspect is not leased ahead: it stays in ready. Jobs that were
-- superseded or have no payload are removed; jobs that were not started within their ttl are buried.
-- Repeating a call before its token expires (its reply was lost) returns the same jobs.
--
-- KEYS  ready unack pending jobs opts attempts errors meta holders blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info
-- ARGV  n (1 to 1000), lease in ms, call id, payload bytes (0: any; one job is always leased), least
--       age since the due time in ms, info of expired jobs ('' forgets them), jobs that start at once, 1 if
--       the topic must have limits, the last ms at which this call may lease ('' or absent: any)
-- Returns ok, again: the token of jobs that start at once (that of the others is the next number), the
--         counts removed and expired, the ms after which more may be leased or '', how many jobs start at
--         once, how many suspects stay in ready, and the jobs in columns: ids; due times, each behind the
--         number of the first job that has it, which the next ones share; payloads, in parts; and, unless no
--         job of the topic has any, options or nil, and attempts or nil. The fraction of a due time is at
--         most its place within the millisecond
--         empty, limited: the ms after which a job may be leased, or '' if that is not known
--         paused
--         no limits: the topic must have some, so Redis has lost them
--         late: the caller no longer waits for the reply, or does not know this clock
-- @include now
-- @include number
-- @include limits

-- 1. Parse.
local jobs_max, lease_ms, call_id = read_whole(ARGV[1], 1, BATCH_MAX), read_whole(ARGV[2], 1, LEASE_MAX_MS), ARGV[3]
local bytes_max, min_age = read_whole(ARGV[4], 0, TIME_MAX), read_whole(ARGV[5], 0, 1e12)
local expired_info, at_once = ARGV[6], read_whole(ARGV[7], 0, BATCH_MAX)

if not jobs_max then return refuse('lease takes 1 to 1000 jobs') end
if not lease_ms then return refuse('a lease lasts 1 ms to one day') end
if not call_id or call_id == '' then return refuse('lease needs a call id') end
if not bytes_max or not min_age or not expired_info then
  return refuse('lease needs a bound of bytes, a least age and the info of expired jobs')
end
if not at_once then return refuse('of the jobs of a lease 0 to 1000 start at once') end
local last_ms = (ARGV[9] or '') == '' and TIME_MAX or read_whole(ARGV[9], 0, TIME_MAX)
if not last_ms then return refuse('the last moment of a lease call is a time in ms') end

local function forget_expired_calls() redis.call('ZREMRANGEBYSCORE', HOLDERS, '-inf', whole(now_us)) end
local repeated_token = redis.call('ZSCORE', HOLDERS, call_id)
local is_repeated = repeated_token and tonumber(repeated_token) > now_us
-- `max_running` leaves this call less than it asks for: the end of a lease wakes sleeping runners.
local is_short_of_room = false
-- A call that leases nothing writes nothing but this.
local function lease_nothing(reply)
  forget_expired_calls()
  if is_short_of_room then redis.call('HSET', META, 'waiting', 1) end
  return reply
end
local ready_count = 0
if not is_repeated then
  if now_ms > last_ms then return lease_nothing({ 'late' }) end
  if limits.paused then return lease_nothing({ 'paused' }) end
  local has_limits = limits.per_key > 0 or limits.max_running > 0 or limits.rate_us or limits.ttl > 0
    or limits.priorities_share
  if ARGV[8] == '1' and not has_limits then return lease_nothing({ 'no limits' }) end
  ready_count = redis.call('ZCARD', READY)
  if ready_count == 0 then return lease_nothing({ 'empty', '' }) end
end
-- What is included from here on is needed only where something is leased: most of a call's time goes there.
-- @include option
-- @include order
-- @include failures
-- @include wake
-- @include permits_if_any
-- @include bury
-- @include scores
-- @include columns
-- @include tokens
-- @include types

-- Replaces the admission time of jobs that hold a permit by their due time.
local function true_dues(ids, dues)
  if not has_permits then return end
  local due
  for i, permit in ipairs(redis.call('HMGET', TURNS_OF, unpack(ids))) do
    due = dues[i] or due
    dues[i] = permit and string.match(permit, '^(%d+) ') or due
  end
end

local function is_expired(due, options)
  local ttl = option(options, 'ttl_ms', 'number') or limits.ttl
  return ttl > 0 and tonumber(due) + ttl < now_ms
end

local function is_suspect(attempts)
  local counted = tonumber(attempts or 0) or 0
  return counted >= SUSPECT or crashes_in(counted) > 0
end

local has_pending = redis.call('EXISTS', PENDING) == 1
local is_bare = redis.call('EXISTS', OPTS, ATTEMPTS) == 0
local function read_options_and_attempts(jobs)
  jobs.options = is_bare and {} or redis.call('HMGET', OPTS, unpack(jobs.ids))
  jobs.attempts = is_bare and {} or redis.call('HMGET', ATTEMPTS, unpack(jobs.ids))
end

-- The ids of the jobs that will not run (superseded, without a payload, expired, suspects that would not
-- start at once), and the numbers of all of these. A repeated call finds none expired and none suspect: its
-- jobs are leased already.
local function sort_out(jobs, is_repeated)
  local superseded, missing, expired, suspects, dropped = {}, {}, {}, {}, {}
  local ids, dues, options, attempts = jobs.ids, jobs.dues, jobs.options, jobs.attempts
  local successors = has_pending and redis.call('ZMSCORE', PENDING, unpack(ids)) or {}
  local may_expire = not is_repeated and (limits.ttl > 0 or #options > 0)
  local i, leased, due = 0, 0, nil
  for _, part in ipairs(jobs.payloads) do
    for number = 1, #part do
      i = i + 1
      due = dues[i] or due
      local payload = part[number]
      if successors[i] then
        superseded[#superseded + 1], dropped[i] = ids[i], true
      elseif not payload then
        missing[#missing + 1], dropped[i] = ids[i], true
      elseif may_expire and not attempts[i] and is_expired(due, options[i]) then
        expired[#expired + 1] = { id = ids[i], payload = payload, options = options[i], info = expired_info }
        dropped[i] = true
      elseif not is_repeated and leased >= at_once and attempts[i] and is_suspect(attempts[i]) then
        suspects[#suspects + 1], dropped[i] = ids[i], true
      else
        leased = leased + 1
      end
    end
  end
  return superseded, missing, expired, suspects, dropped
end

local function add_columns(reply, jobs)
  local dues, last = {}, nil
  for i = 1, #jobs.ids do
    local due = jobs.dues[i]
    if due and due ~= last then
      dues[#dues + 1], dues[#dues + 2], last = i, due, due
    end
  end
  reply[8], reply[9], reply[10] = jobs.ids, dues, jobs.payloads
  if not is_bare then reply[11], reply[12] = jobs.options, jobs.attempts end
  return reply
end

local function return_permits(ids)
  if not has_permits then return end
  for _, id in ipairs(ids) do return_permit(id) end
end

-- A repeated call.
if is_repeated then
  expect_failures()
  expect_permits()
  local ids, dues, leased_at_once = {}, {}, 0
  for ahead = 0, 1 do
    local token = whole(tonumber(repeated_token) + ahead)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', UNACK, token, token, 'LIMIT', 0, BATCH_MAX - #ids)) do
      ids[#ids + 1] = id
    end
    if ahead == 0 then leased_at_once = #ids end
  end
  local jobs, dropped = { ids = ids, dues = dues, options = {}, attempts = {}, payloads = {} }, {}
  if #ids > 0 then
    dues[1] = whole(math.floor(tonumber(repeated_token) / 1000) - lease_ms)
    true_dues(ids, dues)
    jobs.payloads[1] = redis.call('HMGET', JOBS, unpack(ids))
    read_options_and_attempts(jobs)
    local superseded, _, _, _, not_running = sort_out(jobs, true)
    dropped = not_running
    if #superseded > 0 then
      redis.call('ZREM', UNACK, unpack(superseded))
      forget_failures(superseded)
      return_permits(superseded)
      -- Their successors need wait no longer.
      wake(now_ms)
    end
  end
  local reply = { 'again', repeated_token, 0, 0, '', leased_at_once, 0 }
  for i = 1, leased_at_once do
    if dropped[i] then reply[6] = reply[6] - 1 end
  end
  add_columns(reply, without(jobs, dropped))
  forget_expired_calls()
  if admitted > 0 then wake(now_ms) end
  return reply
end
-- 2. Decide.
-- How many jobs the limits of the topic let this call have.
local room = jobs_max
if limits.max_running > 0 then
  room = math.min(room, limits.max_running - redis.call('ZCARD', UNACK))
  is_short_of_room = room < jobs_max
  if room < 1 then return lease_nothing({ 'limited', '' }) end
end
-- The generic cell rate algorithm (ITU-T I.371) on the clock of Redis. `tat` is when the next job would
-- start at an even pace; it may run ahead of the clock by a burst. A clock that was set back delays
-- nothing.
local ahead_us, burst_us, wait_us = 0, 0, nil
if limits.rate_us then
  burst_us = limits.rate_us * limits.burst
  ahead_us = math.max(0, math.min(limits.tat - now_us, burst_us))
  local allowed = math.floor((burst_us - ahead_us) / limits.rate_us + 1e-9)
  if allowed < room then
    room, wait_us = allowed, limits.rate_us
  end
  if room < 1 then
    return lease_nothing({ 'limited', whole(math.ceil((ahead_us + limits.rate_us - burst_us) / 1000)) })
  end
end

local newest_due = min_age > 0 and now_ms - min_age or DUE_MAX
-- Of ten jobs, six are high, three normal and one low if all three wait.
local SHARES = { 1, 2, 1, 1, 2, 1, 1, 2, 1, 3 }

-- Where in SHARES the next call goes on; nil if priorities do not share.
local next_position

-- Selects jobs by priority; returns ids and scores.
local function select_by_priority()
  -- The score range of each priority, highest first.
  local ranges = {
    { '-inf', '(' .. whole(newest_due + 1 - PRIORITY_STEP) },
    { '(' .. whole(-DUE_MAX), '(' .. whole(newest_due + 1) },
    { '(' .. whole(DUE_MAX), min_age > 0 and '(' .. whole(newest_due + 1 + PRIORITY_STEP) or '+inf' },
  }
  -- The first jobs of each priority, each id followed by its score, and the index of the next one.
  local first, next_of = {}, { 1, 1, 1 }
  for priority, range in ipairs(ranges) do
    first[priority] = redis.call('ZRANGEBYSCORE', READY, range[1], range[2], 'WITHSCORES', 'LIMIT', 0, room)
  end
  local position = 0
  if limits.priorities_share then
    position = math.floor(tonumber(redis.call('HGET', META, 'lane') or '') or 0)
  end
  local ids, scores = {}, {}
  while #ids < room do
    local priority = limits.priorities_share and SHARES[position % #SHARES + 1] or 1
    if not first[priority][next_of[priority]] then
      priority = first[1][next_of[1]] and 1 or first[2][next_of[2]] and 2 or 3
    end
    local at = next_of[priority]
    if not first[priority][at] then break end
    ids[#ids + 1], scores[#scores + 1] = first[priority][at], first[priority][at + 1]
    next_of[priority] = at + 2
    position = position + 1
  end
  if limits.priorities_share then next_position = position % #SHARES end
  return ids, scores
end

-- The first jobs of ready, and their scores.
local function first_in_ready()
  local function read(...) return redis.call('ZRANGE', READY, 0, room - 1, ...) end
  if math.min(room, ready_count) > FEW then
    local ids = read()
    return ids, scores_in_order(READY, ids, function() return read('WITHSCORES') end)
  end
  local few, ids, scores = read('WITHSCORES'), {}, {}
  for i = 1, #few, 2 do ids[#ids + 1], scores[#scores + 1] = few[i], few[i + 1] end
  return ids, scores
end

-- The due time behind a score, with its place within the millisecond; times up to the year 5138 have 14
-- digits.
local function due_of(score)
  if #score <= 14 and string.byte(score) ~= 45 then return score end
  local number = tonumber(score)
  if number < -DUE_MAX then return exact(number + PRIORITY_STEP) end
  if number > DUE_MAX then return exact(number - PRIORITY_STEP) end
  return score
end

local by_rank = not limits.priorities_share and min_age == 0
local candidates, scores = (by_rank and first_in_ready or select_by_priority)()

-- When the first job reaches the minimum age.
local function wait_for_age()
  local wait = ''
  for _, shift in ipairs({ -PRIORITY_STEP, 0, PRIORITY_STEP }) do
    local first = redis.call('ZRANGEBYSCORE', READY, whole(newest_due + 1 + shift), whole(DUE_MAX + shift),
      'WITHSCORES', 'LIMIT', 0, 1)
    if first[2] then
      local ms = math.floor(tonumber(first[2])) - shift + min_age - now_ms
      if wait == '' or ms < tonumber(wait) then wait = whole(ms) end
    end
  end
  return wait
end
local wait = min_age > 0 and #candidates < room and wait_for_age() or ''
if #candidates == 0 then return lease_nothing({ 'empty', wait }) end

-- Reads the payloads of the first candidates, within the bound. They are read in parts, so that not many more
-- bytes are read than returned; to ask for each length first would take longer. A part is larger than the
-- one before if that was small. A part of about 16 KiB costs Redis least: that fits into one buffer.
local PART_FIRST, PART_MAX, SMALL = 8, 64, 1024
local function read_payloads()
  local parts, at, part_max, bytes = {}, 1, PART_FIRST, 0
  while at <= #candidates do
    local part = redis.call('HMGET', JOBS, unpack(candidates, at, math.min(at + part_max - 1, #candidates)))
    local before = bytes
    for i = 1, #part do
      local payload = part[i]
      if payload then bytes = bytes + #payload end
      if bytes_max > 0 and bytes > bytes_max and at + i > 2 then
        parts[#parts + 1] = { unpack(part, 1, i - 1) }
        return parts, at + i - 2
      end
    end
    parts[#parts + 1] = part
    at = at + #part
    part_max = bytes - before <= #part * SMALL and math.min(2 * part_max, PART_MAX) or PART_FIRST
  end
  return parts, #candidates
end

local jobs, read = { ids = candidates, dues = {} }, 0
jobs.payloads, read = read_payloads()
if read < #candidates then
  wait = '0'
  jobs.ids = { unpack(candidates, 1, read) }
end
for i, score in pairs(scores) do jobs.dues[i] = due_of(score) end
local ids = jobs.ids
true_dues(ids, jobs.dues)
read_options_and_attempts(jobs)
local superseded, missing, expired, suspects, dropped = sort_out(jobs, false)
jobs = without(jobs, dropped)
local leased = jobs.ids
local token = whole(token_at(now_us + lease_ms * 1000))
local token_ahead = whole(tonumber(token) + 1)
local reply = { 'ok', token, 0, 0, '', math.min(at_once, #leased), #suspects }

-- 3. Write.
expect_zsets(UNACK)
if #superseded + #missing + #expired > 0 then
  expect_hashes(OPTS, ATTEMPTS, ERRORS)
  expect_permits()
  if #expired > 0 then expect_dead() end
end
forget_expired_calls()
if is_short_of_room then redis.call('HSET', META, 'waiting', 1) end
if next_position then redis.call('HSET', META, 'lane', next_position) end
if by_rank and #suspects == 0 then
  redis.call('ZREMRANGEBYRANK', READY, 0, #ids - 1)
else
  local stays = {}
  for _, id in ipairs(suspects) do stays[id] = true end
  local leaving = {}
  for _, id in ipairs(ids) do
    if not stays[id] then leaving[#leaving + 1] = id end
  end
  if #leaving > 0 then redis.call('ZREM', READY, unpack(leaving)) end
end
forget_failures(superseded)
return_permits(superseded)
if #expired > 0 then
  if expired_info ~= '' then bury(expired) end
  for _, death in ipairs(expired) do missing[#missing + 1] = death.id end
end
if #missing > 0 then
  forget_failures(missing)
  redis.call('HDEL', JOBS, unpack(missing))
  redis.call('HDEL', OPTS, unpack(missing))
  return_permits(missing)
end
reply[3], reply[4] = #superseded + #missing - #expired, #expired
if admitted > 0 then wake(now_ms) end

if #leased > 0 then
  -- The last one goes first, as its place is found sooner in front of the others.
  local to_unack, count = {}, #leased
  for i = 1, count do
    local number = count + 1 - i
    to_unack[2 * i - 1], to_unack[2 * i] = number <= at_once and token or token_ahead, leased[number]
  end
  if redis.call('ZADD', UNACK, 'NX', unpack(to_unack)) < count then
    -- A leased id was put into ready by hand: it is removed, never leased twice.
    local tokens = redis.call('ZMSCORE', UNACK, unpack(leased))
    local not_ours, own_at_once = {}, 0
    for i = 1, count do
      if tokens[i] ~= (i <= at_once and token or token_ahead) then
        not_ours[i] = true
        reply[3] = reply[3] + 1
      elseif i <= at_once then
        own_at_once = own_at_once + 1
      end
    end
    jobs, reply[6] = without(jobs, not_ours), own_at_once
  end
  redis.call('ZADD', HOLDERS, token, call_id)
  if limits.rate_us then
    ahead_us = ahead_us + #leased * limits.rate_us
    redis.call('HSET', META, 'tat', whole(math.ceil(now_us + ahead_us)))
  end
end
if wait_us and #ids >= room then
  wait = whole(math.max(0, math.ceil((ahead_us + limits.rate_us - burst_us) / 1000)))
end
reply[5] = wait
return add_columns(reply, jobs)
