-- Reads a whole number from `least` to `most`; nil if the text is anything else.
local function read_whole(text, least, most)
  local number = string.find(text or '', '^%d+$') and tonumber(text)
  if number and number >= least and number <= most then return number end
  return nil
end
