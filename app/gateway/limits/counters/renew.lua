-- Renews leases, and creates those that were lost: their requests are still running.
--
-- KEYS  1 the epoch, then a bucket for each lease. ARGV  1 the length of a lease, then the reservation of each.
--
-- Replies {0, now, start of the epoch}, or {2, now} if there is no epoch.
local epoch = redis.call('GET', KEYS[1])
if not epoch then
  return {2, now}
end
for index = 2, #KEYS do
  redis.call('ZADD', KEYS[index], now + tonumber(ARGV[1]), ARGV[index])
  redis.call('PEXPIRE', KEYS[index], DAY)
end
return {0, now, tonumber(string.match(epoch, '^%d+'))}
