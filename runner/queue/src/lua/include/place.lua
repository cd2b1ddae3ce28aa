-- Puts a job that is in no state where its due time says, and wakes sleeping runners. The caller writes
-- payload and options. Returns the state.
-- @include now
-- @include wake
-- @include permits
local function place(id, due, options)
  if due > now_ms then
    redis.call('ZADD', PENDING, whole(due), id)
    wake(due)
    return 'pending'
  end
  local stage = admit(id, due, options)
  if stage == 'ready' or admitted > 0 then wake(now_ms) end
  return stage
end
