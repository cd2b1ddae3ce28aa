-- Pushes jobs. If an id is live, the mode decides. Each id gets a result of its own.
--
-- A caller may number its calls and add a key of its own to the keys. The key holds the number and the
-- words of the caller's last call that stored jobs. That call gets the same reply when it is repeated.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of unique
-- ARGV  mode (reject, keep, replace), with a caller followed by a space and the number of the call; the due
--       time of all jobs if they have the same and no options, or ''; then for each job id and payload, or
--       without that due time id, due, payload, options
-- Returns a word for each job, or one for all: pushed, exists, kept, replaced, successor, held, full, bad_due
-- Longer than a call is repeated.
local CALL_KEPT_MS = 120000
-- Most pushes are of one job that is due now and has no options, in a topic where no rule applies and nothing
-- failed. Such a call needs none of what is included for others, which would take most of its time.
if #ARGV == 4 and ARGV[2] == '0'
  and redis.call('EXISTS', OPTS, RETRY, ATTEMPTS, ERRORS, BLOCKED, BLOCKED_AT, TURNS, TURNS_OF, UNIQUE) == 0 then
  local mode, number = string.match(ARGV[1], '^(%l+) (%d+)$')
  local last = number and redis.call('GET', KEYS[#KEYS])
  local is_next = number and (not last or tonumber(string.match(last, '^%d+') or 'inf') < tonumber(number))
  local meta = is_next and redis.call('HMGET', META, 'per_key', 'max_pending', 'wake')
  local id, is_plain = ARGV[3], is_next and (mode == 'reject' or mode == 'keep' or mode == 'replace')
    and (tonumber(meta[1] or '') or 0) == 0 and (tonumber(meta[2] or '') or 0) == 0
  if is_plain and not redis.call('ZSCORE', READY, id) and not redis.call('ZSCORE', UNACK, id)
    and not redis.call('ZSCORE', PENDING, id) then
    local clock = redis.call('TIME')
    local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local now = string.format('%d', now_ms)
    -- As in `tail_of` and `score_behind`.
    local tail = redis.call('ZREVRANGEBYSCORE', READY, '(' .. string.format('%d', now_ms + 1), now, 'WITHSCORES', 'LIMIT', 0, 1)
    local score = tail[2] or now
    if tail[1] and not ('B' < 'a' and tail[1] < id) then
      local of_tail = tonumber(score)
      local _, exponent = math.frexp(of_tail)
      local next_score = of_tail + 2 ^ (exponent - 53)
      score = math.floor(next_score) == now_ms and string.format('%.17g', next_score)
    end
    if score then
      redis.call('HSET', JOBS, id, ARGV[4])
      redis.call('SET', KEYS[#KEYS], number .. ' pushed', 'PX', CALL_KEPT_MS)
      redis.call('ZADD', READY, score, id)
      local waited_for = tonumber(meta[3] or '')
      if not waited_for or now_ms < waited_for then
        redis.call('HSET', META, 'wake', now)
        redis.call('PUBLISH', string.sub(META, 1, -5) .. 'wake', now)
      end
      return { 'pushed' }
    end
  end
end

-- @include now
-- @include due
-- @include limits
-- @include failures
-- @include ready
-- @include order
-- @include wake
-- @include permits_if_any
local mode, number = string.match(ARGV[1] or '', '^(%l+) ?(%d*)$')
local CALLER = number ~= '' and KEYS[#KEYS]
-- Values of a job from the first one after `at_of` its number.
local due_of_all = ARGV[2] ~= '' and ARGV[2]
local values_per_job = due_of_all and 2 or 4
local job_count = (#ARGV - 2) / values_per_job
local function at_of(i) return 3 + values_per_job * (i - 1) end

if job_count < 1 or job_count > BATCH_MAX or job_count ~= math.floor(job_count) then
  return refuse('push takes 1 to 1000 jobs of id, due, payload and options')
end
if mode ~= 'reject' and mode ~= 'keep' and mode ~= 'replace' then
  return refuse('push has no mode ' .. tostring(ARGV[1]))
end
if CALLER then
  local last_number, last_words = string.match(redis.call('GET', CALLER) or '', '^(%d+) (.*)$')
  if last_number == number then
    local words = {}
    for word in string.gmatch(last_words, '%S+') do words[#words + 1] = word end
    return words
  end
  if last_number and tonumber(last_number) > tonumber(number) then
    return refuse('this push comes after a later one of its caller')
  end
end
local ids, all_options = {}, {}
for i = 1, job_count do
  local at = at_of(i)
  ids[i] = ARGV[at]
  local options = not due_of_all and ARGV[at + 3] or ''
  if options ~= '' then
    if not pcall(cjson.decode, options) then return refuse('the options of job ' .. i .. ' are not JSON') end
    all_options[i] = options
  end
end

-- Of each id: its score in a stage, or its member in `blocked`; false or nil where it is not. Most stages of a
-- topic are empty most of the time.
local FEW = 4
local function scores_in(stage)
  if job_count > FEW and redis.call('EXISTS', stage) == 0 then return {} end
  return redis.call('ZMSCORE', stage, unpack(ids))
end
local in_pending, in_ready, in_unack, in_retry =
  scores_in(PENDING), scores_in(READY), scores_in(UNACK), scores_in(RETRY)
local in_blocked = has_permits and redis.call('HMGET', BLOCKED_AT, unpack(ids)) or {}
local held_until = redis.call('EXISTS', UNIQUE) == 1 and redis.call('ZMSCORE', UNIQUE, unpack(ids)) or {}
local function is_waiting(i) return in_pending[i] or in_ready[i] or in_retry[i] or in_blocked[i] end

-- How many jobs `max_pending` lets this call add.
local room = math.huge
if limits.max_pending > 0 then
  room = limits.max_pending - redis.call('ZCARD', PENDING) - redis.call('ZCARD', READY)
    - redis.call('HLEN', BLOCKED_AT)
end

-- A word for each job, and the numbers and due times of the jobs to write, one for each id. A second job of an
-- id in one call meets the first as if it were stored.
local words, writes, due_of_write, index_of = {}, {}, {}, {}
local are_words_same = true
local last_due_text, due
local function decide(i, id)
  local waits, is_leased = is_waiting(i), in_unack[i]
  local is_live = waits or index_of[id] or (is_leased and redis.call('HEXISTS', JOBS, id) == 1)
  local is_held = not is_live and held_until[i] and tonumber(held_until[i]) > now_ms
  if not due then return 'bad_due' end
  if (is_live or is_held) and mode == 'keep' then return 'kept' end
  if is_live and mode == 'reject' then return 'exists' end
  if is_held then return 'held' end
  if not (waits or index_of[id]) then
    if room < 1 then return 'full' end
    room = room - 1
  end
  local index = index_of[id] or (#writes + 1)
  index_of[id] = index
  writes[index], due_of_write[index] = i, due
  return is_leased and 'successor' or (is_live and 'replaced' or 'pushed')
end
for i = 1, job_count do
  local due_text = due_of_all or ARGV[at_of(i) + 1]
  if due_text ~= last_due_text then
    last_due_text, due = due_text, read_due(due_text)
  end
  words[i] = decide(i, ids[i])
  are_words_same = are_words_same and words[i] == words[1]
end
if are_words_same then words = { words[1] } end
if #writes == 0 then return words end

-- Ids: whose waiting job is replaced, that are not leased, and whose new job has no options. And the writes
-- of due jobs that may need a permit.
local has_options, has_failures = redis.call('HLEN', OPTS) > 0, redis.call('EXISTS', ATTEMPTS, ERRORS) > 0
local replaced, not_leased, without_options, to_admit = {}, {}, {}, {}
local to_jobs, to_opts, to_ready, to_pending = {}, {}, {}, {}
local wake_at
-- The tails of the milliseconds into which this call pushes. They are read before anything is written.
local tails = { [PENDING] = {}, [READY] = {} }
local last_stage, last_ms, tail
local function score_of(stage, ms, id)
  -- Jobs of a batch often fall due together.
  if ms ~= last_ms or stage ~= last_stage then
    last_stage, last_ms, tail = stage, ms, tails[stage][ms]
    if not tail then
      tail = tail_of(stage, ms)
      tails[stage][ms] = tail
    end
  end
  return score_behind(tail, ms, id)
end
for i, job in ipairs(writes) do
  local id, due, is_leased, options = ids[job], due_of_write[i], in_unack[job], all_options[job]
  to_jobs[2 * i - 1], to_jobs[2 * i] = id, ARGV[at_of(job) + (due_of_all and 1 or 2)]
  if options then
    to_opts[#to_opts + 1] = id
    to_opts[#to_opts + 1] = options
  elseif has_options then
    without_options[#without_options + 1] = id
  end
  if is_waiting(job) then replaced[#replaced + 1] = id end
  if has_failures and not is_leased then not_leased[#not_leased + 1] = id end
  local is_due = due <= now_ms
  if not is_due or is_leased then
    to_pending[#to_pending + 1] = due < DUE_MAX - 2 * BATCH_MAX and score_of(PENDING, due, id) or whole(due)
    to_pending[#to_pending + 1] = id
  elseif limits.per_key > 0 and options then
    to_admit[#to_admit + 1] = i
  else
    to_ready[#to_ready + 1] = score_of(READY, due + (options and priority_shift(options) or 0), id)
    to_ready[#to_ready + 1] = id
  end
  -- A due successor waits for the end of a lease: no runner need wake.
  if not (is_due and is_leased) and (not wake_at or due < wake_at) then wake_at = due end
end

if has_failures then expect_failures() end
if has_permits or #to_admit > 0 then expect_permits() end
-- The first write adds: if Redis is out of memory it refuses, and nothing has changed.
redis.call('HSET', JOBS, unpack(to_jobs))
if CALLER then
  redis.call('SET', CALLER, number .. ' ' .. table.concat(words, ' '), 'PX', CALL_KEPT_MS)
end
if #replaced > 0 then
  redis.call('ZREM', PENDING, unpack(replaced))
  redis.call('ZREM', READY, unpack(replaced))
  redis.call('ZREM', RETRY, unpack(replaced))
end
forget_failures(not_leased)
if #without_options > 0 then redis.call('HDEL', OPTS, unpack(without_options)) end
if #to_opts > 0 then redis.call('HSET', OPTS, unpack(to_opts)) end
if #to_ready > 0 then add_in_order(READY, to_ready) end
if #to_pending > 0 then add_in_order(PENDING, to_pending) end
if has_permits then
  -- All jobs leave their queues before the first permit is returned, which could admit one of them.
  for _, job in ipairs(writes) do leave_queue(ids[job]) end
  for _, job in ipairs(writes) do
    if is_waiting(job) and not in_unack[job] then return_permit(ids[job]) end
  end
end
for _, i in ipairs(to_admit) do admit(ids[writes[i]], due_of_write[i], all_options[writes[i]]) end
if admitted > 0 then wake_at = math.min(wake_at or now_ms, now_ms) end
if wake_at and (not limits.wake or wake_at < limits.wake) then wake(wake_at) end
return words
