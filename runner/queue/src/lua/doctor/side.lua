-- Examines one page of what accompanies payloads: options, attempts, errors, permits, reserved ids. What
-- belongs to no job is removed.
--
-- KEYS  jobs opts ready unack retry attempts errors meta blocked blocked:at turns turns:of unique
-- ARGV  cursor, count, repair, part (opts, attempts, errors, turns:of, unique)
-- Returns the next cursor, the bytes read, then kind, id, detail, what was done or '' for each finding. `options` is not a
--          finding yet: the caller checks whether the detail can be read as options
-- @include now
-- @include wake
-- @include permits
-- @include doctor
-- @include types
local part = ARGV[4]

if not count then return refuse('the doctor looks at 1 to 1000 ids') end

-- True if a runner has the job, or had it and the job waits to run again.
local function has_begun(id)
  return redis.call('ZSCORE', READY, id) or redis.call('ZSCORE', UNACK, id)
    or redis.call('ZSCORE', RETRY, id)
end

local check = {}

check['opts'] = function(id, options)
  if redis.call('HEXISTS', JOBS, id) == 1 then
    find('options', id, options, '')
  elseif find('stray_options', id, 'no such job', 'removed') then
    redis.call('HDEL', OPTS, id)
  end
end

check['attempts'] = function(id, attempts)
  local is_number = string.find(attempts, '^%d+$')
  if is_number and (has_begun(id) or redis.call('HEXISTS', BLOCKED_AT, id) == 1) then return end
  local detail = is_number and 'attempts of no job that has begun' or 'attempts that are not a number'
  if find('stray_attempts', id, detail, 'removed') then redis.call('HDEL', ATTEMPTS, id) end
end

check['errors'] = function(id)
  if has_begun(id) or redis.call('HEXISTS', BLOCKED_AT, id) == 1 then return end
  if find('stray_attempts', id, 'an error of no job that has begun', 'removed') then
    redis.call('HDEL', ERRORS, id)
  end
end

check['turns:of'] = function(id, permit)
  if not string.find(permit, '^%d+ .') then
    if find('stray_permit', id, 'an unreadable permit', 'removed') then
      redis.call('HDEL', TURNS_OF, id)
    end
  elseif not has_begun(id) then
    if find('stray_permit', id, 'held by no job', 'given to the next') then return_permit(id) end
  end
end

-- The longest hold is ten years; this is a little more.
local HOLD_MAX_MS = 3.2e11

check['unique'] = function(id, held_until)
  if tonumber(held_until) <= now_ms + HOLD_MAX_MS then return end
  if find('bad_score', id, 'held until ' .. held_until, 'released') then redis.call('ZREM', UNIQUE, id) end
end

local KEY = ({
  opts = OPTS, attempts = ATTEMPTS, errors = ERRORS, ['turns:of'] = TURNS_OF, unique = UNIQUE,
})[part]
if not KEY then return refuse('the doctor knows no part ' .. tostring(part)) end
expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS, BLOCKED_AT, TURNS, TURNS_OF)
expect_zsets(READY, UNACK, RETRY, BLOCKED)
local page = read_page(KEY == UNIQUE and 'ZSCAN' or 'HSCAN', KEY)
for i = 1, #page, 2 do
  if not seen[page[i]] then check[part](page[i], page[i + 1]) end
  seen[page[i]] = true
end
if admitted > 0 then wake(now_ms) end
return reply
