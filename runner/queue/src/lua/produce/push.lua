-- Pushes jobs. If an id is live, the mode decides. Each id gets a result of its own.
--
-- A caller may number its calls and add a key of its own to the keys. The key holds the number and the
-- words of the caller's last call that stored jobs. That call is answered the same when it is repeated.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of unique
-- ARGV  mode (reject, keep, replace), with a caller followed by a space and the number of the call; then id,
--       due, payload, options for each job
-- Returns a word for each job: pushed, exists, kept, replaced, successor, held, full, bad_due
-- @include now
-- @include due
-- @include limits
-- @include failures
-- @include ready
-- @include order
-- @include wake
-- @include permits
-- @include types
local mode, number = string.match(ARGV[1] or '', '^(%l+) ?(%d*)$')
local CALLER = number ~= '' and KEYS[#KEYS]
-- Longer than a call is repeated.
local CALL_KEPT_MS = 120000
local count = (#ARGV - 1) / 4

if count < 1 or count > BATCH_MAX or count ~= math.floor(count) then
  return refuse('push takes 1 to 1000 jobs of id, due, payload and options')
end
if mode ~= 'reject' and mode ~= 'keep' and mode ~= 'replace' then
  return refuse('push has no mode ' .. tostring(ARGV[1]))
end
if CALLER then
  local last, before = string.match(redis.call('GET', CALLER) or '', '^(%d+) (.*)$')
  if last == number then
    -- One word stands for all jobs.
    local words = {}
    for word in string.gmatch(before, '%S+') do words[#words + 1] = word end
    for i = #words + 1, count do words[i] = words[1] end
    return words
  end
  if last and tonumber(last) > tonumber(number) then
    return refuse('this push comes after a later one of its caller')
  end
end
local ids = {}
for i = 1, count do
  ids[i] = ARGV[4 * i - 2]
  local options = ARGV[4 * i + 1]
  if options ~= '' and not pcall(cjson.decode, options) then
    return refuse('the options of job ' .. i .. ' are not JSON')
  end
end

local pending = redis.call('ZMSCORE', PENDING, unpack(ids))
local ready = redis.call('ZMSCORE', READY, unpack(ids))
local unack = redis.call('ZMSCORE', UNACK, unpack(ids))
local retry = redis.call('ZMSCORE', RETRY, unpack(ids))
local blocked = has_permits and redis.call('HMGET', BLOCKED_AT, unpack(ids)) or {}
local held_until = redis.call('EXISTS', UNIQUE) == 1 and redis.call('ZMSCORE', UNIQUE, unpack(ids)) or {}

local room = math.huge
if limits.max_pending > 0 then
  room = limits.max_pending - redis.call('ZCARD', PENDING) - redis.call('ZCARD', READY)
    - redis.call('HLEN', BLOCKED_AT)
end

-- A second job of an id in one call meets the first as if it were stored.
local words, writes, write_of = {}, {}, {}
local are_same = true
local due_text, due
local function decide(i, id)
  local staged = pending[i] or ready[i] or retry[i] or blocked[i]
  local leased = unack[i]
  local live = staged or write_of[id] or (leased and redis.call('HEXISTS', JOBS, id) == 1)
  local held = not live and held_until[i] and tonumber(held_until[i]) > now_ms
  if not due then return 'bad_due' end
  if (live or held) and mode == 'keep' then return 'kept' end
  if live and mode == 'reject' then return 'exists' end
  if held then return 'held' end
  if not (staged or write_of[id]) then
    if room < 1 then return 'full' end
    room = room - 1
  end
  local slot = write_of[id] or (#writes + 1)
  write_of[id] = slot
  writes[slot] = { id = id, due = due, job = i, leased = leased, staged = staged }
  return leased and 'successor' or (live and 'replaced' or 'pushed')
end
for i = 1, count do
  if ARGV[4 * i - 1] ~= due_text then
    due_text = ARGV[4 * i - 1]
    due = read_due(due_text)
  end
  words[i] = decide(i, ids[i])
  are_same = are_same and words[i] == words[1]
end
if #writes == 0 then return words end

local withdrawn, fresh, plain, keyed = {}, {}, {}, {}
local to_jobs, to_opts, to_ready, to_pending = {}, {}, {}, {}
local earliest
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
for i, write in ipairs(writes) do
  local id, due, leased = write.id, write.due, write.leased
  local payload, options = ARGV[4 * write.job], ARGV[4 * write.job + 1]
  to_jobs[2 * i - 1], to_jobs[2 * i] = id, payload
  if options == '' then
    plain[#plain + 1] = id
  else
    to_opts[#to_opts + 1] = id
    to_opts[#to_opts + 1] = options
  end
  if write.staged then withdrawn[#withdrawn + 1] = id end
  if not leased then fresh[#fresh + 1] = id end
  local is_due = due <= now_ms
  if not is_due or leased then
    to_pending[#to_pending + 1] = due < DUE_MAX - 2 * BATCH_MAX and score_of(PENDING, due, id) or whole(due)
    to_pending[#to_pending + 1] = id
  elseif limits.per_key > 0 and options ~= '' then
    keyed[#keyed + 1] = write
  else
    to_ready[#to_ready + 1] = score_of(READY, due + (options == '' and 0 or priority_shift(options)), id)
    to_ready[#to_ready + 1] = id
  end
  -- A due successor waits for the end of a lease: no runner need wake.
  if not (is_due and leased) and (not earliest or due < earliest) then earliest = due end
end

expect_hashes(OPTS, ATTEMPTS, ERRORS)
if has_permits or #keyed > 0 then expect_permits() end
-- The first write adds: if Redis is out of memory it refuses, and nothing has changed.
redis.call('HSET', JOBS, unpack(to_jobs))
if CALLER then
  local text = are_same and words[1] or table.concat(words, ' ')
  redis.call('SET', CALLER, number .. ' ' .. text, 'PX', CALL_KEPT_MS)
end
if #withdrawn > 0 then
  redis.call('ZREM', PENDING, unpack(withdrawn))
  redis.call('ZREM', READY, unpack(withdrawn))
  redis.call('ZREM', RETRY, unpack(withdrawn))
end
forget_failures(fresh)
if #plain > 0 then redis.call('HDEL', OPTS, unpack(plain)) end
if #to_opts > 0 then redis.call('HSET', OPTS, unpack(to_opts)) end
if #to_ready > 0 then add_in_order(READY, to_ready) end
if #to_pending > 0 then add_in_order(PENDING, to_pending) end
if has_permits then
  -- All jobs leave their queues before the first permit is returned, which could admit one of them.
  for _, write in ipairs(writes) do leave_queue(write.id) end
  for _, write in ipairs(writes) do
    if write.staged and not write.leased then return_permit(write.id) end
  end
end
for _, write in ipairs(keyed) do admit(write.id, write.due, ARGV[4 * write.job + 1]) end
if admitted > 0 then earliest = math.min(earliest or now_ms, now_ms) end
if earliest and (not limits.wake or earliest < limits.wake) then wake(earliest) end
return words
