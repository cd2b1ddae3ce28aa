-- `ready` is three queues in one: a job's score is its due time, moved by its priority.
local PRIORITY_STEP = 2e14
local DUE_MAX = 1e14
local function ready_score(due, options)
  local priority = option(options, 'priority', 'string')
  if priority == 'high' then
    due = due - PRIORITY_STEP
  elseif priority == 'low' then
    due = due + PRIORITY_STEP
  end
  return whole(due)
end
