//! Injects the faults of a plan, and restarts processes that end by themselves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::Names;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::clock;
use super::plan::{Fault, Process, What};
use super::product::{Broker, Product};
use super::struck::Struck;

/// Time limit from SIGTERM to the end: slightly longer than the programs' own.
const STOP: Duration = Duration::from_secs(32);
/// Interval between checks of the processes.
const WATCH: Duration = Duration::from_millis(100);
const RECONNECT: Duration = Duration::from_secs(5);
/// The file in the run's directory that lists the deaths at failpoints.
pub const FAILPOINT_LOG: &str = "failpoints.log";

/// Descriptions of events that must not occur.
#[derive(Clone, Debug, Default)]
pub struct Strange(Arc<Mutex<Vec<String>>>);

impl Strange {
    pub fn note(&self, what: String) {
        println!("{what}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Injects a fault, and heals it at its end.
///
/// Panics if a server cannot be restarted.
pub async fn strike(product: &Product, fault: Fault, strange: &Strange) -> Struck {
    let from = product.began.elapsed();
    println!("{:>7.1} s  {} for {:.1} s", from.as_secs_f64(), fault.what, fault.lasts.as_secs_f64());
    match &fault.what {
        What::Killed(process) => {
            let mut program = product.processes[process].lock().await;
            program.kill().await;
            product.arm(*process, false);
            tokio::time::sleep(fault.lasts).await;
            program.launch();
        }
        What::Stopped(process) => stop(product, *process, fault.lasts, strange).await,
        What::Suspended(process) => {
            let program = product.processes[process].lock().await;
            program.suspend().await;
            tokio::time::sleep(fault.lasts).await;
            program.resume().await;
        }
        What::Dies(process, failpoint, hit) => {
            dies(product, *process, failpoint, *hit).await;
            tokio::time::sleep(fault.lasts).await;
        }
        What::Network(link, trouble) => {
            if let Some(proxy) = product.links.get(link) {
                proxy.suffer(*trouble);
                tokio::time::sleep(fault.lasts).await;
                proxy.heal();
            }
        }
        What::Provider(mood) => {
            product.temper.set(Some(*mood));
            tokio::time::sleep(fault.lasts).await;
            product.temper.set(None);
        }
        _ => strike_server(product, &fault).await,
    }
    Struck { what: fault.what, from, healed: product.began.elapsed() }
}

async fn strike_server(product: &Product, fault: &Fault) {
    match fault.what {
        What::PostgresGone => {
            let mut postgres = product.postgres.lock().await;
            postgres.kill().await;
            tokio::time::sleep(fault.lasts).await;
            postgres.start_again().await;
        }
        What::BackendsKilled => {
            // If the database is unavailable, its connections are closed already.
            if let Ok(db) = product.database().await {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                let _ = db.batch_execute(sql).await;
            }
        }
        What::NatsGone(number) => {
            let mut nats = product.nats.lock().await;
            nats.kill(number).await;
            tokio::time::sleep(fault.lasts).await;
            nats.start_again(number).await;
        }
        What::NatsHung => {
            if let Broker::Single(server) = &*product.nats.lock().await {
                server.suspend().await;
                tokio::time::sleep(fault.lasts).await;
                server.resume();
            }
        }
        What::NatsFull => {
            let nats = product.nats.lock().await;
            if let Broker::Single(server) = &*nats {
                let stream = Names::new("").ingest_stream();
                let before = server.limit_stream(&stream, None).await.expect("limiting the stream");
                tokio::time::sleep(fault.lasts).await;
                server.limit_stream(&stream, Some(before)).await.expect("restoring the stream's limit");
            }
        }
        What::PostgresDiskFull => {
            let mut postgres = product.postgres.lock().await;
            postgres.fill_disk().await;
            tokio::time::sleep(fault.lasts / 2).await;
            // Makes the WAL need a new segment, sooner than it would by itself.
            if let Ok(db) = product.database().await {
                let _ = db.batch_execute("SELECT pg_switch_wal()").await;
            }
            tokio::time::sleep(fault.lasts / 2).await;
            postgres.free_disk();
            if postgres.recover().await {
                println!("          PostgreSQL had exited and was restarted");
            }
        }
        What::NatsDiskFull => {
            let mut nats = product.nats.lock().await;
            if let Broker::Single(server) = &mut *nats {
                server.fill_disk().await;
                tokio::time::sleep(fault.lasts).await;
                server.free_disk();
                // A stream with a failed write accepts nothing until the server restarts.
                if !server.is_healthy().await {
                    println!("          NATS is restarted");
                    server.stop().await;
                    server.start_again().await;
                }
            }
        }
        What::ClockMoved(minutes) => {
            move_clock(product, minutes).await;
            tokio::time::sleep(fault.lasts).await;
            move_clock(product, 0).await;
        }
        What::RedisGone => {
            let mut redis = product.redis.lock().await;
            redis.kill().await;
            tokio::time::sleep(fault.lasts).await;
            redis.start_again().await;
        }
        What::RedisHung => {
            let redis = product.redis.lock().await;
            redis.suspend().await;
            tokio::time::sleep(fault.lasts).await;
            redis.resume();
        }
        What::RedisFlushed => {
            let _redis = product.redis.lock().await;
            assert!(flush(&product.redis_url).await.is_some(), "Redis did not confirm the flush");
        }
        _ => {}
    }
}

/// Retries until the database is available, if it is not or closes the connection.
pub async fn move_clock(product: &Product, minutes: i16) {
    loop {
        if let Ok(db) = product.database().await
            && clock::set(&db, minutes).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(WATCH).await;
    }
}

async fn stop(product: &Product, process: Process, down: Duration, strange: &Strange) {
    let mut program = product.processes[&process].lock().await;
    let armed = product.arm(process, false);
    match program.terminate(STOP).await {
        Some(status) if status.success() || armed => {}
        Some(status) => strange.note(format!("{process} stopped with {status}; log: {}", program.log().display())),
        None => {
            strange.note(format!("{process} did not stop within {STOP:?}; log: {}", program.log().display()));
            program.kill().await;
        }
    }
    tokio::time::sleep(down).await;
    program.launch();
}

/// Restarts a process so that it dies at a failpoint.
async fn dies(product: &Product, process: Process, failpoint: &str, hit: u32) {
    let mut program = product.processes[&process].lock().await;
    program.kill().await;
    product.arm(process, true);
    let log = product.dir().join(FAILPOINT_LOG);
    program.launch_with(&[("FAILPOINTS", &format!("{failpoint}={hit}")), ("FAILPOINT_LOG", &log.to_string_lossy())]);
}

/// Runs `FLUSHALL`. Returns `None` if Redis does not respond.
async fn flush(url: &str) -> Option<()> {
    let (password, address) = url.strip_prefix("redis://:")?.split_once('@')?;
    let mut stream = TcpStream::connect(address.trim_end_matches('/')).await.ok()?;
    stream.write_all(format!("AUTH {password}\r\nFLUSHALL\r\n").as_bytes()).await.ok()?;
    let mut answer = [0; 10];
    tokio::time::timeout(RECONNECT, stream.read_exact(&mut answer)).await.ok()?.ok()?;
    (&answer == b"+OK\r\n+OK\r\n").then_some(())
}

/// Restarts every process that has ended by itself, as an operator would. Only processes with a failpoint set may end.
pub async fn watch(product: &Product, strange: &Strange) {
    let mut turns = tokio::time::interval(WATCH);
    loop {
        turns.tick().await;
        for (process, program) in &product.processes {
            // Locked by the task that injects a fault into it.
            let Ok(mut program) = program.try_lock() else { continue };
            let Some(status) = program.has_ended() else { continue };
            program.ended().await;
            let at = product.began.elapsed().as_secs_f64();
            if product.arm(*process, false) {
                println!("{at:>7.1} s  {process} died at its failpoint");
            } else {
                let log = program.log().display();
                strange.note(format!("{process} exited unexpectedly with {status} after {at:.1} s; log: {log}"));
            }
            program.launch();
        }
    }
}

/// Removes all remaining faults and waits until all processes are ready; the error names one that is not.
pub async fn heal(product: &Product) -> Result<(), String> {
    product.links.values().for_each(super::proxy::Proxy::heal);
    product.temper.set(None);
    for (process, program) in &product.processes {
        let mut program = program.lock().await;
        if product.arm(*process, false) {
            program.kill().await;
            program.launch();
        }
    }
    let began = Instant::now();
    product.all_ready().await?;
    println!("all processes are ready {:.1} s after the last fault", began.elapsed().as_secs_f64());
    Ok(())
}
