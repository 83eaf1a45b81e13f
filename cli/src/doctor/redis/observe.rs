//! Observes Redis.

use std::time::Duration;

use kernel::env::Env;
use rate_limits::Server;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tls::TlsFault;

use super::{RedisInfo, RedisState};

const TIMEOUT: Duration = Duration::from_secs(3);

pub async fn at(env: &Env) -> RedisState {
    let Ok(Some(server)) = Server::from_env(env) else { return RedisState::Unset };
    match read_info(server.client()).await {
        Ok(info) => RedisState::Reachable(read(&info)),
        Err(error) => RedisState::Unreachable(error.to_string(), TlsFault::find(&error)),
    }
}

async fn read_info(client: &Client) -> RedisResult<String> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(TIMEOUT)).set_response_timeout(Some(TIMEOUT));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    redis::cmd("INFO").query_async(&mut connection).await
}

/// Parses lines of `name:value`.
fn read(info: &str) -> RedisInfo {
    let field = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    };
    let max_memory = field("maxmemory").parse().unwrap_or(0);
    RedisInfo { version: field("redis_version"), policy: field("maxmemory_policy"), max_memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_full_name() {
        let info =
            "# Memory\r\nmaxmemory_human:1M\r\nmaxmemory:5\r\nmaxmemory_policy:noeviction\r\nredis_version:7.2\r\n";
        assert_eq!(read(info), RedisInfo { version: "7.2".into(), policy: "noeviction".into(), max_memory: 5 });
    }
}
