-- Pushes jobs. An id that is live follows the mode; every id gets a word of its own.
--
-- KEYS  jobs opts pending ready unack retry attempts meta
-- ARGV  mode (reject, keep, replace), wake channel, then id, due, payload, options for each job
-- Returns a word for each job: pushed, exists, kept, replaced, successor, bad_due
local JOBS, OPTS, PENDING, READY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNACK, RETRY, ATTEMPTS, META = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local mode, channel = ARGV[1], ARGV[2]
local count = (#ARGV - 2) / 4

if count < 1 or count > 1000 or count ~= math.floor(count) then
  return refuse('push takes 1 to 1000 jobs of id, due, payload and options')
end
if mode ~= 'reject' and mode ~= 'keep' and mode ~= 'replace' then
  return refuse('push knows no mode ' .. mode)
end
local ids = {}
for i = 1, count do
  ids[i] = ARGV[4 * i - 1]
  local options = ARGV[4 * i + 2]
  if options ~= '' and not pcall(cjson.decode, options) then
    return refuse('the options of job ' .. i .. ' are no JSON')
  end
end

local pending = redis.call('ZMSCORE', PENDING, unpack(ids))
local ready = redis.call('ZMSCORE', READY, unpack(ids))
local unack = redis.call('ZMSCORE', UNACK, unpack(ids))
local retry = redis.call('ZMSCORE', RETRY, unpack(ids))

-- Decide every job before the first write. A second one of an id meets the first as if it were stored.
local words, writes, write_of = {}, {}, {}
local due_text, due
for i = 1, count do
  local id = ids[i]
  if ARGV[4 * i] ~= due_text then
    due_text = ARGV[4 * i]
    due = read_due(due_text)
  end
  local staged = pending[i] or ready[i] or retry[i]
  local leased = unack[i]
  local live = staged or write_of[id] or (leased and redis.call('HEXISTS', JOBS, id) == 1)
  if not due then
    words[i] = 'bad_due'
  elseif live and mode == 'reject' then
    words[i] = 'exists'
  elseif live and mode == 'keep' then
    words[i] = 'kept'
  else
    words[i] = leased and 'successor' or (live and 'replaced' or 'pushed')
    local slot = write_of[id] or (#writes + 1)
    write_of[id] = slot
    writes[slot] = { id = id, due = due, job = i, leased = leased, staged = staged }
  end
end
if #writes == 0 then return words end

local withdrawn, fresh, plain = {}, {}, {}
local to_jobs, to_opts, to_ready, to_pending = {}, {}, {}, {}
local earliest, last_due, score
for i, write in ipairs(writes) do
  local id, due, leased = write.id, write.due, write.leased
  local payload, options = ARGV[4 * write.job + 1], ARGV[4 * write.job + 2]
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
  local stage = (is_due and not leased) and to_ready or to_pending
  -- Jobs of a batch often fall due together.
  if due ~= last_due then last_due, score = due, whole(due) end
  stage[#stage + 1] = score
  stage[#stage + 1] = id
  -- A due successor waits for the end of a lease, and nobody need wake for it.
  if not (is_due and leased) and (not earliest or due < earliest) then earliest = due end
end

-- The first write adds: where Redis is out of memory it is refused, and the whole push with it.
redis.call('HSET', JOBS, unpack(to_jobs))
if #withdrawn > 0 then
  redis.call('ZREM', PENDING, unpack(withdrawn))
  redis.call('ZREM', READY, unpack(withdrawn))
  redis.call('ZREM', RETRY, unpack(withdrawn))
end
if #fresh > 0 then redis.call('HDEL', ATTEMPTS, unpack(fresh)) end
if #plain > 0 then redis.call('HDEL', OPTS, unpack(plain)) end
if #to_opts > 0 then redis.call('HSET', OPTS, unpack(to_opts)) end
if #to_ready > 0 then redis.call('ZADD', READY, unpack(to_ready)) end
if #to_pending > 0 then redis.call('ZADD', PENDING, unpack(to_pending)) end
if earliest then wake(META, channel, earliest) end
return words
