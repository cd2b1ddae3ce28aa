-- Returns the scores, as text, of ids that are ordered by score. A missing score equals the one before it, up to
-- the fraction of a millisecond. Reading a score is one of the most expensive things that Redis 7.0 does with a
-- job, and jobs pushed together are due together, so a score between two of the same millisecond is not read.
-- If many scores differ, or ids are few, `read_all` reads all of them (ids and scores alternate).
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
