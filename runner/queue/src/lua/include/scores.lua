-- The scores, as text, of ids in the order of their scores. Where there is none, that of the id before holds:
-- it is of the same millisecond. Reading a score costs Redis 7.0 as much as anything else it does with a job,
-- and jobs pushed together are due together: between two scores of a millisecond it is not read. Where scores
-- differ, or ids are few, `read_all` returns ids and scores, which alternate.
local FEW = 4
local function scores_in_order(key, ids, read_all)
  local scores, asked, asked_max, are_known = {}, 0, 2 + #ids / 8, true
  local function ask(i)
    asked = asked + 1
    scores[i] = redis.call('ZSCORE', key, ids[i])
  end
  local function are_of_one_ms(from, to)
    local first, last = tonumber(scores[from]), tonumber(scores[to])
    return first == last or math.abs(first) >= DUE_MIN and math.floor(first) == math.floor(last)
  end
  local function fill_between(from, to)
    if to - from < 2 or are_of_one_ms(from, to) then return end
    if asked >= asked_max then
      are_known = false
    else
      local middle = math.floor((from + to) / 2)
      ask(middle)
      fill_between(from, middle)
      fill_between(middle, to)
    end
  end
  if #ids > FEW then
    ask(1)
    ask(#ids)
    fill_between(1, #ids)
    if are_known then return scores end
  end
  local all = read_all()
  for i = 1, #all / 2 do scores[i] = all[2 * i] end
  return scores
end
