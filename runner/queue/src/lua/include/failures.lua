-- What a job has behind it: failures + 1,000,000 × crashes + 1,000,000,000 × snoozes, and
-- 2,000,000,000,000,000 if it is a suspect: a lease that ended without a verdict held it before it was
-- known to have started. What it failed of last is in `errors`.
local function failures_of(id)
  return tonumber(redis.call('HGET', ATTEMPTS, id) or 0) or 0
end
local function crashes_in(attempts) return math.floor(attempts / CRASH) % 1000 end
local function snoozes_in(attempts) return math.floor(attempts % SUSPECT / SNOOZE) end
local function forget_failures(ids)
  -- Most topics have none at most times: that is known sooner than a thousand ids are looked up.
  if #ids == 0 or redis.call('EXISTS', ATTEMPTS, ERRORS) == 0 then return end
  redis.call('HDEL', ATTEMPTS, unpack(ids))
  redis.call('HDEL', ERRORS, unpack(ids))
end
