-- What the doctor does to a job: it leaves all stages, with or without a grave.
-- @include failures
-- @include turns
-- @include bury

-- Takes an id out of every stage it waits in. What a lease needs stays with the lease.
local function withdraw(id)
  redis.call('ZREM', PENDING, id)
  redis.call('ZREM', READY, id)
  redis.call('ZREM', RETRY, id)
  leave_line(id)
  redis.call('HDEL', OPTS, id)
  if redis.call('ZSCORE', UNACK, id) then return end
  forget_failures({ id })
  leave_turn(id)
end

-- Buries a job with what it died of; with no info it is forgotten.
local function bury_job(id, info)
  if info ~= '' then
    bury({ {
      id = id,
      payload = redis.call('HGET', JOBS, id),
      options = redis.call('HGET', OPTS, id),
      info = info,
    } })
  end
  withdraw(id)
  redis.call('HDEL', JOBS, id)
end
