-- Puts a job that waits nowhere where its due time says, and wakes who sleeps. Its payload and
-- options are written by the caller. Returns the stage.
-- @include now
-- @include wake
-- @include turns
local function place(id, due, options)
  if due > now_ms then
    redis.call('ZADD', PENDING, whole(due), id)
    wake(due)
    return 'pending'
  end
  local stage = admit(id, due, options)
  if stage == 'ready' or let_through > 0 then wake(now_ms) end
  return stage
end
