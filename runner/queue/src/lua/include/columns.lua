-- Jobs are held in columns, as Redis returned them: `ids`; `dues` (a missing entry repeats the previous one);
-- `payloads`, in parts; and `options` and `attempts` if any job of the topic has them.

-- Returns the jobs without those at the given positions.
local function without(jobs, dropped)
  if not next(dropped) then return jobs end
  local kept, payloads, i, due = { ids = {}, dues = {}, options = {}, attempts = {} }, {}, 0, nil
  for _, part in ipairs(jobs.payloads) do
    for _, payload in ipairs(part) do
      i = i + 1
      due = jobs.dues[i] or due
      if not dropped[i] then
        local number = #kept.ids + 1
        kept.ids[number], kept.dues[number], payloads[number] = jobs.ids[i], due, payload
        kept.options[number], kept.attempts[number] = jobs.options[i], jobs.attempts[i]
      end
    end
  end
  kept.payloads = { payloads }
  return kept
end
