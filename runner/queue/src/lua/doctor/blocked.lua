-- Examines one page of `blocked`, or of its index `blocked:at`: members that are invalid, that are missing
-- in the index, or that wait in a queue that nothing advances.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info
-- ARGV  cursor, count, repair, part (blocked, blocked:at)
-- Returns the next cursor, the bytes read, then kind, id, detail, what was done or '' for each finding
-- @include now
-- @include wake
-- @include permits
-- @include doctor
-- @include doctor_job
local part = ARGV[4]

if not count then return refuse('the doctor looks at 1 to 1000 ids') end

-- The key and the id of a member; nil if it is invalid.
local function read_member(member)
  local at = string.find(member, '\0', 1, true)
  if not at or at == 1 then return nil end
  local numbers = string.sub(member, at + 1, at + 33)
  if not string.find(numbers, '^' .. string.rep('%d', 15) .. '%z' .. string.rep('%d', 16) .. '%z$') then
    return nil
  end
  return string.sub(member, 1, at - 1), string.sub(member, at + 34)
end

local function other_stage(id)
  for _, stage in ipairs({ { 'unack', UNACK }, { 'ready', READY } }) do
    if redis.call('ZSCORE', stage[2], id) then return stage[1] end
  end
  return nil
end

-- The index has another member, or none.
local function check_index(id, member)
  local known = redis.call('HGET', BLOCKED_AT, id)
  if known == member then return true end
  local is_double = known and redis.call('ZSCORE', BLOCKED, known)
  local detail = is_double and 'twice in the queue of its key' or 'in the queue of its key, but not in the index'
  if find('queue_mismatch', id, detail, is_double and 'left there once' or 'indexed') then
    if is_double then
      redis.call('ZREM', BLOCKED, member)
    else
      redis.call('HSET', BLOCKED_AT, id, member)
    end
  end
  return not is_double
end

local function check_member(member, score)
  local key, id = read_member(member)
  if not key then
    if find('queue_mismatch', member, 'not a valid member', 'removed') then
      redis.call('ZREM', BLOCKED, member)
    end
    return
  end
  if tonumber(score) ~= 0 and find('bad_score', id, 'blocked, score ' .. score, 'set to 0') then
    redis.call('ZADD', BLOCKED, 0, member)
  end
  if not check_index(id, member) then return end
  local other = other_stage(id)
  if redis.call('HEXISTS', JOBS, id) == 0 then
    if find('no_payload', id, 'blocked', 'removed') then remove_job(id) end
  elseif other then
    if find('two_stages', id, 'blocked and ' .. other, 'left in ' .. other) then leave_queue(id) end
  elseif (tonumber(redis.call('HGET', TURNS, key) or 0) or 0) < 1 then
    if find('stuck_queue', id, 'no job of the key ' .. key .. ' holds a permit', 'admitted') then
      advance(key)
    end
  end
end

local function check_index_field(id, member)
  if redis.call('ZSCORE', BLOCKED, member) then return end
  local key, named = read_member(member)
  local stands = key and named == id and redis.call('HEXISTS', JOBS, id) == 1
    and not other_stage(id) and not redis.call('ZSCORE', RETRY, id)
  if find('queue_mismatch', id, 'in the index, but not in the queue of its key', stands and 'put back' or 'removed') then
    if stands then
      redis.call('ZADD', BLOCKED, 0, member)
    else
      redis.call('HDEL', BLOCKED_AT, id)
    end
  end
end

expect_job_keys()
expect_hashes(TURNS, TURNS_OF, BLOCKED_AT)
expect_zsets(BLOCKED)
if part == 'blocked' then
  local page = read_page('ZSCAN', BLOCKED)
  for i = 1, #page, 2 do
    -- Entries before it on the page may have advanced the queue.
    if redis.call('ZSCORE', BLOCKED, page[i]) then check_member(page[i], page[i + 1]) end
  end
elseif part == 'blocked:at' then
  local page = read_page('HSCAN', BLOCKED_AT)
  for i = 1, #page, 2 do
    if redis.call('HGET', BLOCKED_AT, page[i]) == page[i + 1] then check_index_field(page[i], page[i + 1]) end
  end
else
  return refuse('the doctor knows no part ' .. tostring(part))
end
if admitted > 0 then wake(now_ms) end
return reply
