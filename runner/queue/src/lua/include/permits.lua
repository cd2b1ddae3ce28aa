-- Permits in scripts that also look for ones that were left behind.
-- @include permits_if_any
if not has_permits then define_permits() end
