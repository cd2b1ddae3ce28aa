-- Puts jobs that are in no stage into the one that their due time and their key say.
-- @include now
-- @include wake
-- @include permits
-- @include order

-- The score in pending of a job behind the others of its millisecond. The last milliseconds are not ordered:
-- a score after them would be invalid.
local function pending_score(due, id)
  return due < DUE_MAX - 2 * BATCH_MAX and score_in(PENDING, due, id) or whole(due)
end

-- Puts a job into its stage, and wakes sleeping runners. The caller writes payload and options. Returns the
-- stage.
local function enter_stage(id, due, options)
  if due > now_ms then
    redis.call('ZADD', PENDING, pending_score(due, id), id)
    wake(due)
    return 'pending'
  end
  local stage = admit(id, due, options)
  if stage == 'ready' or admitted > 0 then wake(now_ms) end
  return stage
end
