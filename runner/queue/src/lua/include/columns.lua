-- Jobs are held in columns, each of which Redis has read as it is: `ids`; `dues`, where there is none that of
-- the job before holds; `payloads`, in parts; and, unless no job of the topic has any, `options` and `attempts`.

-- The same jobs without those of these numbers.
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
