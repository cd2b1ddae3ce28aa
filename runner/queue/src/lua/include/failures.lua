-- Attempts of a job, in one number: failures + CRASH × crashes + SNOOZE × snoozes, + SUSPECT if it is a
-- suspect: its lease ended without a verdict before the job was known to have started. `errors` holds its
-- last failure.
-- @include types
local function expect_failures() expect_hashes(ATTEMPTS, ERRORS) end
local function attempts_of(id)
  return tonumber(redis.call('HGET', ATTEMPTS, id) or 0) or 0
end
local function crashes_in(attempts) return math.floor(attempts / CRASH) % 1000 end
local function snoozes_in(attempts) return math.floor(attempts % SUSPECT / SNOOZE) end
-- Forgets the failures of ids, or of those from `first` to `last`.
local function forget_failures(ids, first, last)
  -- Most topics have neither key most of the time; this check is cheaper than a thousand lookups.
  if #ids == 0 or redis.call('EXISTS', ATTEMPTS, ERRORS) == 0 then return end
  redis.call('HDEL', ATTEMPTS, unpack(ids, first or 1, last or #ids))
  redis.call('HDEL', ERRORS, unpack(ids, first or 1, last or #ids))
end
