-- Ends leases with verdicts. Each is fenced by its token; a stale one replies `lost` and changes nothing.
-- The whole batch is read and checked before the first write, which removes: that is allowed when Redis is
-- out of memory, so a full Redis still drains.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta dead dead:jobs dead:opts dead:info holders blocked blocked:at turns turns:of unique outbox done done:jobs done:info done:result
-- ARGV  for each job id, token, verdict, and then what it takes; but acks under one token that follow each
--       other, which is what most verdicts are, form a group: how many, token, ack, their ids
--         finish   an ack that leaves something: ms its id is held, info to keep it in done or '',
--                  its result or '', its follow-ups or ''
--         release  delay in ms (0: to ready under its old due time), due in ms as lease gave it
--         nack     delay in ms, attempts in all (1 to 999999), info
--         snooze   delay in ms, snoozes in all; when they are spent as nack: delay, attempts, info
--         drop     info
-- Returns a text with one letter for each job: d done, s superseded, c cancelled, r released, t retry,
--         z snoozed, x dead, l lost
-- @include now
-- @include number
-- @include limits
-- @include failures
-- @include ready
-- @include wake
-- @include permits_if_any
-- @include bury
-- @include keep
-- @include types

-- 1. Parse: check every verdict before anything is written.
local EXTRA_ARGS = { finish = 4, release = 2, nack = 3, snooze = 5, drop = 1 }
local DELAY_MAX = 1e12

local function delay_at(at) return read_whole(ARGV[at], 0, DELAY_MAX) end

-- Returns the problem of the verdict that starts at argument `at`, or nil; and the number of its arguments after
-- id, token and verdict.
local function problem_at(at)
  local verdict = ARGV[at + 2] or ''
  local extra_args = EXTRA_ARGS[verdict] or verdict == 'ack' and read_whole(ARGV[at], 1, BATCH_MAX)
  if not extra_args and verdict == 'ack' then return 'a group acks 1 to 1000 jobs' end
  if not extra_args then return 'unknown verdict ' .. verdict end
  if not string.find(ARGV[at + 1], '^%d+$') then return 'its token is not a number' end
  if at + 2 + extra_args > #ARGV then return 'it is cut short' end
  if verdict == 'ack' then return nil, extra_args end
  if extra_args > 1 and not delay_at(at + 3) then
    return 'its delay is not a whole number of ms up to ' .. whole(DELAY_MAX)
  end
  if verdict == 'release' and not string.find(ARGV[at + 4], '^%d+%.?%d*$') then
    return 'its due time is not a number of ms'
  end
  local nack = verdict == 'nack' and at + 3 or verdict == 'snooze' and at + 5
  if nack and not (delay_at(nack) and read_whole(ARGV[nack + 1], 1, ATTEMPTS_MAX)) then
    return 'its max attempts must be 1 to 999999, and its delay a whole number of ms'
  end
  if verdict == 'snooze' and not read_whole(ARGV[at + 4], 0, SNOOZES_MAX) then
    return 'its max snoozes must be 0 to 1000000'
  end
  return nil, extra_args
end

-- The verdicts in order: a group of acks is a table, a single verdict is its number among the single ones.
-- `single_ids` and `single_at` hold the id and the first argument of each single verdict.
local verdicts, single_ids, single_at = {}, {}, {}
local at, job_count = 1, 0
while at <= #ARGV do
  local problem, extra_args = problem_at(at)
  if problem then return refuse('settle verdict ' .. #verdicts + 1 .. ': ' .. problem) end
  if ARGV[at + 2] == 'ack' then
    verdicts[#verdicts + 1] = { token = ARGV[at + 1], first = at + 3, last = at + 2 + extra_args }
    job_count = job_count + extra_args
  else
    single_ids[#single_ids + 1], single_at[#single_at + 1] = ARGV[at], at
    verdicts[#verdicts + 1] = #single_ids
    job_count = job_count + 1
  end
  at = at + 3 + extra_args
end
if job_count < 1 or job_count > BATCH_MAX then return refuse('settle takes 1 to 1000 jobs') end

-- 2. Decide: read what the verdicts need, and collect the writes.
local single_tokens = #single_ids > 0 and redis.call('ZMSCORE', UNACK, unpack(single_ids))
-- The due time of the successor of each, if it has one.
local single_successors = #single_ids > 0 and redis.call('ZMSCORE', PENDING, unpack(single_ids))

-- The letters of the verdicts in order, each of one or of a whole group.
local letters = {}
-- For each token, the ids that were looked up: true while leased under this token, else false.
local leased_by_token = {}
local function leased_under(token)
  local leased = leased_by_token[token] or {}
  leased_by_token[token] = leased
  return leased
end
local LETTERS = {
  done = 'd', superseded = 's', cancelled = 'c', released = 'r', retry = 't', snoozed = 'z', dead = 'x',
}
-- Ids: whose lease ends, whose attempts and errors are removed, whose payload and options are removed, and
-- whose permit is returned. And the jobs that die.
local ended_ids, to_forget, to_delete, to_return_permit, deaths = {}, {}, {}, {}, {}
-- Groups of acks that end all their leases and delete all their jobs: their ids are not copied.
local whole_groups = {}
local to_ready, to_retry, to_attempts, to_errors = {}, {}, {}, {}
local to_unique, to_outbox = {}, {}
local to_done, to_done_jobs, to_done_info, to_done_result, without_payload, without_result =
  {}, {}, {}, {}, {}, {}

local function add(list, first, second)
  list[#list + 1] = first
  list[#list + 1] = second
end

-- Keeps what an ack leaves.
local function keep_finished(i, id, at)
  local hold_ms, info, result, follow_ups = tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  if hold_ms > 0 then add(to_unique, whole(now_ms + hold_ms), id) end
  if follow_ups ~= '' then
    add(to_outbox, ARGV[at + 1] .. ':' .. id, whole(now_ms) .. ' ' .. follow_ups)
  end
  if info == '' then return end
  add(to_done, whole(now_ms), id)
  add(to_done_info, id, info)
  -- The payload under a successor's id is the successor's.
  local payload = not single_successors[i] and redis.call('HGET', JOBS, id)
  if payload then add(to_done_jobs, id, payload) else without_payload[#without_payload + 1] = id end
  if result ~= '' then add(to_done_result, id, result) else without_result[#without_result + 1] = id end
end

-- The earliest time at which a job can run that could not while it was leased: sleeping runners do not know
-- of it. A due successor is one of them.
local wake_at
local function wake_by(due)
  if not wake_at or due < wake_at then wake_at = due end
end
local function wake_for(successor_due)
  if successor_due and math.floor(tonumber(successor_due)) <= now_ms then wake_by(now_ms) end
end

local function retry_in(id, delay)
  add(to_retry, whole(now_ms + delay), id)
  wake_by(now_ms + delay)
  if limits.relaxed then to_return_permit[#to_return_permit + 1] = id end
end

-- A failed attempt; its delay, attempts and info begin at an argument.
local function fail(id, verdict, at)
  -- A job with a verdict has not killed its runner: it is no longer a suspect.
  local attempts = attempts_of(id) % SUSPECT
  local dies = verdict == 'drop' or attempts % CRASH + 1 >= tonumber(ARGV[at + 1])
  if not dies then
    add(to_attempts, id, whole(attempts + 1))
    add(to_errors, id, ARGV[at + 2])
    retry_in(id, tonumber(ARGV[at]))
    return 'retry'
  end
  deaths[#deaths + 1] = {
    id = id,
    payload = redis.call('HGET', JOBS, id),
    options = redis.call('HGET', OPTS, id),
    info = ARGV[verdict == 'drop' and at or at + 2],
  }
  return 'dead'
end

-- The result for a job that did not succeed, has a payload and no successor.
local function put_back(id, at)
  local verdict, delay = ARGV[at + 2], tonumber(ARGV[at + 3])
  if verdict == 'release' then
    if delay > 0 then
      retry_in(id, delay)
    else
      wake_by(now_ms)
      add(to_ready, ready_score(tonumber(ARGV[at + 4]), redis.call('HGET', OPTS, id)), id)
    end
    return 'released'
  end
  if verdict ~= 'snooze' then return fail(id, verdict, at + 3) end
  local attempts = attempts_of(id) % SUSPECT
  if snoozes_in(attempts) >= tonumber(ARGV[at + 4]) then return fail(id, 'nack', at + 5) end
  add(to_attempts, id, whole(attempts + SNOOZE))
  retry_in(id, delay)
  return 'snoozed'
end

-- Looks up which ids of a group of acks are leased under its token. Unless the token holds many other ids,
-- reading the ids of the token is half the work of reading the token of each id. Returns true if the token
-- holds as many ids as the group has.
local FEW = 4
local function look_up(acks, leased)
  local size, token = acks.last - acks.first + 1, acks.token
  -- Only if the token reads back as the same digits.
  local is_score = size > FEW and #token <= 16 and whole(tonumber(token)) == token
  if is_score and redis.call('ZCOUNT', UNACK, token, token) <= 2 * size then
    local ids = redis.call('ZRANGEBYSCORE', UNACK, token, token)
    for i = 1, #ids do
      local id = ids[i]
      if leased[id] == nil then leased[id] = true end
    end
    return #ids == size
  end
  for i, score in ipairs(redis.call('ZMSCORE', UNACK, unpack(ARGV, acks.first, acks.last))) do
    local id = ARGV[acks.first + i - 1]
    if leased[id] == nil then leased[id] = score == token end
  end
  return false
end

-- Settles a group of acks id by id.
local function settle_each(acks, leased, successors)
  for at = acks.first, acks.last do
    local id = ARGV[at]
    if leased[id] then
      leased[id] = false
      letters[#letters + 1] = 'd'
      ended_ids[#ended_ids + 1] = id
      to_forget[#to_forget + 1] = id
      if has_permits then to_return_permit[#to_return_permit + 1] = id end
      local successor = successors and successors[at - acks.first + 1]
      if successor then wake_for(successor) else to_delete[#to_delete + 1] = id end
    else
      letters[#letters + 1] = 'l'
    end
  end
end

local function settle_acks(acks)
  local size, leased = acks.last - acks.first + 1, leased_under(acks.token)
  local is_large = size > FEW
  acks.is_all_of_token = look_up(acks, leased)
  local successors = (not is_large or redis.call('EXISTS', PENDING) == 1)
    and redis.call('ZMSCORE', PENDING, unpack(ARGV, acks.first, acks.last))
  if not is_large or successors or has_permits then return settle_each(acks, leased, successors) end
  local at = acks.first
  while at <= acks.last and leased[ARGV[at]] do
    leased[ARGV[at]] = false
    at = at + 1
  end
  if at > acks.last then
    whole_groups[#whole_groups + 1] = acks
    letters[#letters + 1] = string.rep('d', size)
    return
  end
  for settled = acks.first, at - 1 do leased[ARGV[settled]] = true end
  settle_each(acks, leased, successors)
end

-- A single verdict.
local function settle_one(i)
  local id, at, successor = single_ids[i], single_at[i], single_successors[i]
  local verdict, word, leased = ARGV[at + 2], nil, leased_under(ARGV[at + 1])
  if leased[id] == false or single_tokens[i] ~= ARGV[at + 1] then
    letters[#letters + 1] = 'l'
    return
  end
  if verdict == 'finish' then
    word = 'done'
    keep_finished(i, id, at)
  elseif successor then
    word = 'superseded'
  elseif redis.call('HEXISTS', JOBS, id) == 0 then
    word = 'cancelled'
  else
    word = put_back(id, at)
  end
  leased[id] = false
  letters[#letters + 1] = LETTERS[word]
  ended_ids[#ended_ids + 1] = id
  if word ~= 'released' and word ~= 'retry' and word ~= 'snoozed' then
    to_forget[#to_forget + 1] = id
    if has_permits then to_return_permit[#to_return_permit + 1] = id end
    wake_for(successor)
    -- Payload and options of a superseded job are its successor's.
    if not successor then to_delete[#to_delete + 1] = id end
  end
end

for _, verdict in ipairs(verdicts) do
  if type(verdict) == 'table' then settle_acks(verdict) else settle_one(verdict) end
end
if #ended_ids + #whole_groups == 0 then return table.concat(letters) end

-- 3. Write.
local has_options = false
if #to_delete + #whole_groups > 0 then
  expect_hashes(JOBS)
  has_options = redis.call('HLEN', OPTS) > 0
end
expect_failures()
if #deaths > 0 then expect_dead() end
if #to_ready > 0 then expect_zsets(READY) end
if #to_retry > 0 then expect_zsets(RETRY) end
if #to_unique > 0 then expect_zsets(UNIQUE) end
if #to_outbox > 0 then expect_hashes(OUTBOX) end
if #to_done > 0 then
  expect_hashes(DONE_JOBS, DONE_INFO, DONE_RESULT)
  expect_zsets(DONE)
end
if #to_return_permit > 0 then expect_permits() end
for _, acks in ipairs(whole_groups) do
  if acks.is_all_of_token then
    redis.call('ZREMRANGEBYSCORE', UNACK, acks.token, acks.token)
  else
    redis.call('ZREM', UNACK, unpack(ARGV, acks.first, acks.last))
  end
  forget_failures(ARGV, acks.first, acks.last)
  redis.call('HDEL', JOBS, unpack(ARGV, acks.first, acks.last))
  if has_options then redis.call('HDEL', OPTS, unpack(ARGV, acks.first, acks.last)) end
end
if #ended_ids > 0 then redis.call('ZREM', UNACK, unpack(ended_ids)) end
bury(deaths)
forget_failures(to_forget)
if #to_delete > 0 then
  redis.call('HDEL', JOBS, unpack(to_delete))
  if has_options then redis.call('HDEL', OPTS, unpack(to_delete)) end
end
if #to_attempts > 0 then redis.call('HSET', ATTEMPTS, unpack(to_attempts)) end
if #to_errors > 0 then redis.call('HSET', ERRORS, unpack(to_errors)) end
if #to_ready > 0 then redis.call('ZADD', READY, unpack(to_ready)) end
if #to_retry > 0 then redis.call('ZADD', RETRY, unpack(to_retry)) end
if #to_unique > 0 then redis.call('ZADD', UNIQUE, unpack(to_unique)) end
if #to_outbox > 0 then redis.call('HSET', OUTBOX, unpack(to_outbox)) end
if #to_done > 0 then
  redis.call('ZADD', DONE, unpack(to_done))
  redis.call('HSET', DONE_INFO, unpack(to_done_info))
  if #to_done_jobs > 0 then redis.call('HSET', DONE_JOBS, unpack(to_done_jobs)) end
  if #to_done_result > 0 then redis.call('HSET', DONE_RESULT, unpack(to_done_result)) end
  -- An earlier done job of this id may have had more.
  if #without_payload > 0 then redis.call('HDEL', DONE_JOBS, unpack(without_payload)) end
  if #without_result > 0 then redis.call('HDEL', DONE_RESULT, unpack(without_result)) end
  keep_newest(DONE, { DONE_JOBS, DONE_INFO, DONE_RESULT }, #to_done / 2)
end
if has_permits then
  for _, id in ipairs(to_return_permit) do return_permit(id) end
end
if limits.waiting then redis.call('HDEL', META, 'waiting') end
if limits.waiting or admitted > 0 then wake_by(now_ms) end
if wake_at then wake(wake_at) end
-- The topic is empty: no lease call can be repeated for a lost reply, and a late repetition finds nothing
-- to lease.
if redis.call('EXISTS', UNACK, READY, RETRY, PENDING) == 0 then redis.call('DEL', HOLDERS) end
return table.concat(letters)
