-- Moves due jobs from retry and pending into ready, under their due time, and returns what comes next. A
-- leased id stays in pending: it is the successor of the job that runs. Jobs with an invalid due time go to
-- dead.
--
-- What moves leaves its old state first: removing is allowed when Redis is out of memory, and a script that
-- has begun to write may finish. So a full Redis still drains.
--
-- KEYS  pending ready unack retry attempts errors meta jobs opts dead dead:jobs dead:opts dead:info blocked blocked:at turns turns:of
-- ARGV  n (1 to 1000), skip, what happens to jobs with an invalid due time (dead, discard)
-- Returns moved, skipped, more (0 or 1), next due in ms or '', bad, now in µs
-- @include now
-- @include number

-- 1. Parse.
local jobs_max, skip = read_whole(ARGV[1], 1, BATCH_MAX), read_whole(ARGV[2], 0, TIME_MAX)

if not jobs_max or not skip then
  return refuse('promote takes 1 to 1000 ids and a skip of 0 or more')
end
if ARGV[3] ~= 'dead' and ARGV[3] ~= 'discard' then
  return refuse('promote puts bad due times to dead, or discards them')
end

-- 2. Decide and write, in three steps: invalid due times, then retry, then pending. A step reads what the
-- one before has left, and each step reads everything it needs before it writes.
local now, after_now = whole(now_ms), whole(now_ms + 1)
local moved, skipped, more, bad_count = 0, 0, 0, 0

-- The score at a rank, from 0, as a number and as text; nil if the stage is empty.
local function score_at(stage, rank)
  local found = redis.call('ZRANGE', stage, rank, rank, 'WITHSCORES')
  return tonumber(found[2] or ''), found[2]
end
local pending_first, pending_first_text = score_at(PENDING, 0)
local has_bad_dues = pending_first and (pending_first < DUE_MIN or score_at(PENDING, -1) > DUE_MAX)
local retry_first, retry_first_text = score_at(RETRY, 0)

local next_due = ''
local function note_due(due)
  local ms = due and math.floor(tonumber(due))
  if ms and (next_due == '' or ms < tonumber(next_due)) then next_due = whole(ms) end
end
-- The first valid time that is not due yet.
local function note_first_due(stage, score, score_text, latest)
  if not score then return end
  if score < now_ms + 1 then
    local latest_text = latest == math.huge and '+inf' or whole(latest)
    note_due(redis.call('ZRANGEBYSCORE', stage, after_now, latest_text, 'WITHSCORES', 'LIMIT', 0, 1)[2])
  elseif score <= latest then
    note_due(score_text)
  end
end
-- Notes and returns what comes next: every call ends with this.
local function report()
  note_first_due(PENDING, pending_first, pending_first_text, DUE_MAX)
  note_first_due(RETRY, retry_first, retry_first_text, math.huge)
  local waited_for = redis.call('HGET', META, 'wake') or ''
  if next_due ~= waited_for then
    if next_due == '' then
      redis.call('HDEL', META, 'wake')
    else
      redis.call('HSET', META, 'wake', next_due)
    end
  end
  return { moved, skipped, more, next_due, bad_count, whole(now_us) }
end

-- Most calls find nothing due, and need nothing of what follows.
local function is_due(score) return score and score < now_ms + 1 end
if not has_bad_dues and not is_due(pending_first) and not is_due(retry_first) then return report() end

-- Moves a few due jobs where no rule applies, no job has options and none has failed: under their old scores. Only
-- where strings are compared by their bytes: elsewhere jobs of one score would get others. False if it moved none.
local FEW_JOBS = 4
local function move_plain()
  if has_bad_dues or retry_first or jobs_max <= FEW_JOBS or not ('B' < 'a') then return false end
  if redis.call('EXISTS', OPTS, ATTEMPTS, ERRORS, BLOCKED, BLOCKED_AT, TURNS, TURNS_OF) > 0 then return false end
  if (tonumber(redis.call('HGET', META, 'per_key') or '') or 0) > 0 then return false end
  local due = redis.call('ZRANGEBYSCORE', PENDING, '-inf', '(' .. after_now, 'WITHSCORES', 'LIMIT', skip, FEW_JOBS + 1)
  if #due == 0 or #due > 2 * FEW_JOBS then return false end
  local ids, to_ready = {}, {}
  for i = 1, #due, 2 do
    if redis.call('ZSCORE', UNACK, due[i]) then return false end
    ids[#ids + 1], to_ready[i], to_ready[i + 1] = due[i], due[i + 1], due[i]
  end
  -- This refuses another type before anything is written.
  redis.call('ZCARD', READY)
  redis.call('ZREM', PENDING, unpack(ids))
  redis.call('ZADD', READY, unpack(to_ready))
  moved = #ids
  return true
end
if move_plain() then return report() end
-- @include limits
-- @include failures
-- @include ready
-- @include order
-- @include permits_if_any
-- @include bury
-- @include scores
-- @include types

local are_types_checked = false
local function expect_types()
  if are_types_checked then return end
  are_types_checked = true
  expect_hashes(OPTS, ATTEMPTS, ERRORS)
  expect_zsets(READY, UNACK, RETRY)
  expect_permits()
end

-- Buries jobs whose due time is not unix milliseconds: below, between or above the valid ranges; 0 means
-- now. Each range is read even if the ones before it are full, so that none hides another.
local function bury_bad_dues(from, to)
  local limit = math.max(1, jobs_max - bad_count)
  local found = redis.call('ZRANGEBYSCORE', PENDING, from, to, 'WITHSCORES', 'LIMIT', 0, limit)
  local ids, deaths, not_leased = {}, {}, {}
  for i = 1, #found, 2 do
    local id, due = found[i], found[i + 1]
    local payload = redis.call('HGET', JOBS, id)
    ids[#ids + 1] = id
    if not redis.call('ZSCORE', UNACK, id) then not_leased[#not_leased + 1] = id end
    if payload then
      deaths[#deaths + 1] = {
        id = id,
        payload = payload,
        options = redis.call('HGET', OPTS, id),
        info = '{"class":"bad_due","reason":"the due time ' .. due
          .. ' is not a unix time in milliseconds"}',
      }
    end
  end
  if #ids == 0 then return end
  expect_types()
  expect_dead()
  redis.call('ZREM', PENDING, unpack(ids))
  redis.call('ZREM', READY, unpack(ids))
  redis.call('ZREM', RETRY, unpack(ids))
  forget_failures(not_leased)
  if ARGV[3] == 'dead' then bury(deaths) end
  redis.call('HDEL', JOBS, unpack(ids))
  redis.call('HDEL', OPTS, unpack(ids))
  if has_permits then
    for _, id in ipairs(ids) do leave_queue(id) end
    for _, id in ipairs(not_leased) do return_permit(id) end
  end
  bad_count = bad_count + #ids
  if #ids == limit then more = 1 end
end
if has_bad_dues then
  bury_bad_dues('-inf', '(0')
  bury_bad_dues('(0', '(' .. whole(DUE_MIN))
  bury_bad_dues('(' .. whole(DUE_MAX), '+inf')
  pending_first, pending_first_text = score_at(PENDING, 0)
  retry_first, retry_first_text = score_at(RETRY, 0)
end

-- Puts due jobs into ready; ids and due times are in the order of their stage, which they keep. A job without
-- a due time has that of the one before.
local function make_ready(ids, dues)
  local has_options = has_permits or limits.per_key > 0 or redis.call('EXISTS', OPTS) == 1
  local options = has_options and redis.call('HMGET', OPTS, unpack(ids)) or {}
  local to_ready, tails = {}, {}
  local last_text, due, shift, tail
  for i, id in ipairs(ids) do
    if dues[i] and dues[i] ~= last_text then
      last_text = dues[i]
      local due_before = due
      due = tonumber(last_text)
      -- 0 comes first in pending and means now: what follows it is due earlier.
      if due_before and due < due_before then tails, shift = {}, nil end
    end
    local own_shift = options[i] and priority_shift(options[i]) or 0
    if own_shift ~= shift then
      shift, tail = own_shift, tails[own_shift] or {}
      tails[shift] = tail
    end
    local score = score_behind(tail, due + shift, id)
    if has_permits or limits.per_key > 0 then
      admit(id, due, options[i], score)
    else
      to_ready[2 * i - 1], to_ready[2 * i] = score, id
    end
  end
  if #to_ready > 0 then add_in_order(READY, to_ready) end
end

-- Up to `most` due ids of a stage after the first `skipped`, and their due times. `first_score` is the lowest
-- score of the stage.
local function due_in(stage, first_score, skipped, most)
  if not is_due(first_score) then return {} end
  local function read(...)
    return redis.call('ZRANGEBYSCORE', stage, '-inf', '(' .. after_now, 'LIMIT', skipped, most, ...)
  end
  local ids = read()
  return ids, scores_in_order(stage, ids, function() return read('WITHSCORES') end)
end

local jobs_left = math.max(1, jobs_max - bad_count)
local retry_max = math.max(1, math.floor(jobs_left / 2))
local ids, dues = due_in(RETRY, retry_first, 0, retry_max)
if #ids > 0 then
  expect_types()
  redis.call('ZREM', RETRY, unpack(ids))
  make_ready(ids, dues)
  moved = #ids
  if moved == retry_max then more = 1 end
end

local pending_max = math.max(1, jobs_left - moved)
ids, dues = due_in(PENDING, pending_first, skip, pending_max)
if #ids > 0 then
  local leased = redis.call('EXISTS', UNACK) == 1 and redis.call('ZMSCORE', UNACK, unpack(ids)) or {}
  local due_of_promoted, promoted = {}, {}
  local last_text, is_bad, due
  for i, id in ipairs(ids) do
    if dues[i] and dues[i] ~= last_text then
      last_text = dues[i]
      local score = tonumber(last_text)
      is_bad = score ~= 0 and score < DUE_MIN
      due = score == 0 and now or last_text
    end
    if is_bad then
      more = 1 -- one more bad due time than a call buries
    elseif leased[i] then
      skipped = skipped + 1
    else
      promoted[#promoted + 1] = id
      due_of_promoted[#promoted] = due
    end
  end
  if #promoted > 0 then expect_types() end
  if #promoted == #ids then
    redis.call('ZREMRANGEBYRANK', PENDING, skip, skip + #ids - 1)
  elseif #promoted > 0 then
    redis.call('ZREM', PENDING, unpack(promoted))
  end
  if #promoted > 0 then
    if retry_first then
      redis.call('ZREM', RETRY, unpack(promoted))
      retry_first, retry_first_text = score_at(RETRY, 0)
    end
    forget_failures(promoted)
    if has_permits then
      -- A superseded job may be older than the topic's limit on keys.
      redis.call('ZREM', READY, unpack(promoted))
      for _, id in ipairs(promoted) do leave_queue(id) end
    end
    make_ready(promoted, due_of_promoted)
    moved = moved + #promoted
  end
  if #ids == pending_max then more = 1 end
end

-- 3. Report.
return report()
