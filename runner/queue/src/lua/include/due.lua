-- Reads a due time: '+ms' from now, '0' for now, or unix milliseconds. nil if the text is invalid or
-- outside DUE_MIN to DUE_MAX: the producer used seconds or microseconds.
-- @include now
local function read_due(text)
  if text == '0' then return now_ms end
  local due
  local delay = string.match(text, '^%+(%d+)$')
  if delay then
    due = now_ms + tonumber(delay)
  elseif string.match(text, '^%d+$') then
    due = tonumber(text)
  end
  if due and due >= DUE_MIN and due <= DUE_MAX then return due end
  return nil
end
