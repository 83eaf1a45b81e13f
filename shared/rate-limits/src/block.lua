-- Empties a bucket and blocks it for a time: no tokens are added, whatever rate the callers use.
-- KEYS[1]: the bucket. ARGV: tokens per second, capacity, duration in milliseconds (at most 60000).
local rate, most, blocked_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local before = math.min(tonumber(redis.call('HGET', KEYS[1], 'rests_until')) or 0, now + 60000000)
local blocked_until = math.max(before, now + blocked_ms * 1000)
redis.call('HSET', KEYS[1], 'tokens', '0', 'at', string.format('%.0f', now), 'rests_until', string.format('%.0f', blocked_until))
redis.call('PEXPIRE', KEYS[1], math.ceil((blocked_until - now) / 1000 + most * 1000 / rate) + 1000)
