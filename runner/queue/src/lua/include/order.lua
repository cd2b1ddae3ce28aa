-- Jobs of one millisecond run in the order in which they were pushed. A score is the due time in ms; its
-- fraction is the place within the millisecond. Redis orders equal scores by id, so a job shares the score of
-- the one before it while their ids ascend, and else gets the next number that a double can hold: 4096 fit
-- into a millisecond, 32 with a priority. Further jobs go into the following milliseconds.
-- @include now

-- Lua compares strings in the locale of the server. Only if that is one that compares bytes, as Redis does,
-- the comparison tells which of two ids Redis puts first.
local compares_bytes = 'B' < 'a'

-- All digits of a score.
local function exact(score)
  return score % 1 == 0 and whole(score) or string.format('%.17g', score)
end

local function next_score(score)
  local _, exponent = math.frexp(score)
  return score + 2 ^ (exponent - 53)
end

-- The last job of a millisecond: its id and score, or neither. If no score is left there, that of the next
-- millisecond in which one is.
local function tail_of(stage, ms)
  local tail = {}
  for from = ms, ms + BATCH_MAX do
    local last = redis.call('ZREVRANGEBYSCORE', stage, '(' .. whole(from + 1), whole(from), 'WITHSCORES', 'LIMIT', 0, 1)
    if not last[1] then break end
    tail.id, tail.score = last[1], tonumber(last[2])
    if math.floor(next_score(tail.score)) == from then break end
  end
  return tail
end

-- The score, as text, of a job that follows the tail and is not before `score`. It becomes the tail.
local function score_behind(tail, score, id)
  local last = tail.score
  if last and score <= last then
    if compares_bytes and tail.id < id then
      tail.id, tail.text = id, tail.text or exact(last)
      return tail.text
    end
    score = next_score(last)
  end
  tail.id, tail.score, tail.text = id, score, exact(score)
  return tail.text
end

-- The score of one job behind all others of its millisecond.
local function score_in(stage, ms, id) return score_behind(tail_of(stage, ms), ms, id) end

-- Adds jobs to a stage: scores and ids alternate, in their order, which is reversed. The last job goes first:
-- Redis looks for a place in a small sorted set from its front, and reading a score with a fraction is
-- expensive.
local function add_in_order(stage, entries)
  local count = #entries
  for i = 1, count / 2, 2 do
    local j = count - i
    entries[i], entries[i + 1], entries[j], entries[j + 1] = entries[j], entries[j + 1], entries[i], entries[i + 1]
  end
  redis.call('ZADD', stage, unpack(entries))
end
