-- Adds to a calendar bucket what the ledger says was spent before this epoch began. Once in each epoch.
--
-- KEYS  1 the epoch, 2 the bucket. ARGV  1 {start of the epoch, start of the period, its end, what was spent}.
--
-- Replies 1, or 0 if the bucket was seeded already, or the seed belongs to another epoch or period.
local epoch = redis.call('GET', KEYS[1])
local told = cmsgpack.unpack(ARGV[1])
if not epoch or tonumber(string.match(epoch, '^%d+')) ~= told[1] or now >= told[3] then
  return 0
end
local raw = redis.call('GET', KEYS[2])
local bucket = raw and cmsgpack.unpack(raw)
if not bucket or bucket[1] < told[2] then
  bucket = {told[2], 0, 0}
end
if bucket[3] == 1 or bucket[1] ~= told[2] then
  return 0
end
bucket[2], bucket[3] = bucket[2] + told[4], 1
redis.call('SET', KEYS[2], cmsgpack.pack(bucket), 'PX', told[3] - now + DAY)
return 1
