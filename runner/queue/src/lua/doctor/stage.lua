-- Examines one page of a stage: ids without a payload, invalid scores, ids that are in another stage too.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info
-- ARGV  cursor, count, repair, stage (pending, ready, retry, unack), info of a bad due time ('' forgets
--       the job)
-- Returns the next cursor, the bytes read, then kind, id, detail, what was done or '' for each finding
-- @include now
-- @include ready
-- @include wake
-- @include permits
-- @include doctor
-- @include doctor_job
local stage, bad_due_info = ARGV[4], ARGV[5]
local KEY = ({ pending = PENDING, ready = READY, retry = RETRY, unack = UNACK })[stage]

if not count or not KEY or not bad_due_info then
  return refuse('the doctor looks at 1 to 1000 ids of pending, ready, retry or unack')
end

-- No call makes a lease longer than a day.
local LEASE_END_MAX = now_us + 366 * 86400 * 1e6

local function bury_bad_due(id, score)
  local detail = stage .. ', due ' .. score
  if find('bad_due', id, detail, bad_due_info == '' and 'forgotten' or 'buried') then
    bury_job(id, bad_due_info)
  end
end

-- The other stage of an id, which it must not have; the stage that runs it sooner stays.
local function other_stage(id)
  if redis.call('ZSCORE', UNACK, id) then return 'unack' end
  if stage == 'ready' or redis.call('ZSCORE', PENDING, id) then return nil end
  if redis.call('ZSCORE', READY, id) then return 'ready' end
  return redis.call('HEXISTS', BLOCKED_AT, id) == 1 and 'blocked' or nil
end

local check = {}

function check.pending(id, score, due)
  if due ~= 0 and not is_time(due) then bury_bad_due(id, score) end
end

function check.retry(id, score, due)
  local other = other_stage(id)
  if other then
    if find('two_stages', id, 'retry and ' .. other, 'left in ' .. other) then
      redis.call('ZREM', RETRY, id)
    end
  elseif not is_time(due) then
    bury_bad_due(id, score)
  end
end

function check.ready(id, score, due)
  local other = other_stage(id)
  if other then
    if find('two_stages', id, 'ready and ' .. other, 'left in ' .. other) then
      redis.call('ZREM', READY, id)
    end
  elseif not (is_time(due) or is_time(due + PRIORITY_STEP) or is_time(due - PRIORITY_STEP)) then
    if find('bad_score', id, 'ready, due ' .. score, 'due now') then
      redis.call('ZADD', READY, ready_score(now_ms, redis.call('HGET', OPTS, id)), id)
      wake(now_ms)
    end
  end
end

function check.unack(id, score, expiry)
  if expiry > LEASE_END_MAX then
    if find('bad_score', id, 'unack, leased until ' .. score, 'ends now') then
      redis.call('ZADD', UNACK, whole(now_us), id)
      wake(now_ms)
    end
  end
end

expect_job_keys()
local page = read_page('ZSCAN', KEY)
for i = 1, #page, 2 do
  local id, score = page[i], page[i + 1]
  if not seen[id] then
    seen[id] = true
    if stage ~= 'unack' and redis.call('HEXISTS', JOBS, id) == 0 then
      if find('no_payload', id, stage, 'removed') then remove_job(id) end
    else
      check[stage](id, score, tonumber(score))
    end
  end
end
if admitted > 0 then wake(now_ms) end
return reply
