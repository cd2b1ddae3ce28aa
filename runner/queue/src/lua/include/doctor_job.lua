-- Removes a job from all states, with or without an entry in dead.
-- @include failures
-- @include permits
-- @include bury
-- @include types
local function expect_job_keys()
  expect_hashes(JOBS, OPTS, ATTEMPTS, ERRORS)
  expect_zsets(PENDING, READY, UNACK, RETRY)
  expect_dead()
  expect_permits()
end

-- Removes an id from every state in which it waits. What a lease needs stays.
local function remove_job(id)
  redis.call('ZREM', PENDING, id)
  redis.call('ZREM', READY, id)
  redis.call('ZREM', RETRY, id)
  leave_queue(id)
  redis.call('HDEL', OPTS, id)
  if redis.call('ZSCORE', UNACK, id) then return end
  forget_failures({ id })
  return_permit(id)
end

-- Buries a job with this info; '' deletes it.
local function bury_job(id, info)
  if info ~= '' then
    bury({ {
      id = id,
      payload = redis.call('HGET', JOBS, id),
      options = redis.call('HGET', OPTS, id),
      info = info,
    } })
  end
  remove_job(id)
  redis.call('HDEL', JOBS, id)
end
