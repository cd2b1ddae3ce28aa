-- `ready` holds three priorities in one zset: a job's score is its due time, moved by its priority.
-- @include now
-- @include option
local function ready_score(due, options)
  local priority = option(options, 'priority', 'string')
  if priority == 'high' then
    due = due - PRIORITY_STEP
  elseif priority == 'low' then
    due = due + PRIORITY_STEP
  end
  return whole(due)
end
