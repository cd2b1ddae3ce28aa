-- Reads one option of a job; nil if it is missing, of another type, or unreadable. Most jobs set no
-- options, so the text is searched before it is decoded.
local function option(options, name, kind)
  if not options or not string.find(options, '"' .. name .. '"', 1, true) then return nil end
  local decoded, own = pcall(cjson.decode, options)
  if decoded and type(own) == 'table' and type(own[name]) == kind then return own[name] end
  return nil
end
