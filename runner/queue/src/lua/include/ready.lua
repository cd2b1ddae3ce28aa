-- `ready` holds three priorities in one zset: a job's score is its due time, moved by its priority.
-- @include option
-- @include order
local function priority_shift(options)
  local priority = option(options, 'priority', 'string')
  return priority == 'high' and -PRIORITY_STEP or priority == 'low' and PRIORITY_STEP or 0
end
local function ready_score(due, options) return exact(due + priority_shift(options)) end
