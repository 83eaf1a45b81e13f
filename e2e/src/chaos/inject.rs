//! Injects the faults of a plan, and restarts processes that end by themselves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::Names;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::clock;
use super::injected::InjectedFault;
use super::plan::{Fault, FaultKind, Process};
use super::product::{Broker, Product};

/// Time limit from SIGTERM to the end: slightly longer than the programs' own.
const STOP: Duration = Duration::from_secs(32);
/// Interval between checks of the processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const REDIS_TIMEOUT: Duration = Duration::from_secs(5);
/// The file in the run's directory that lists the deaths at failpoints.
pub const FAILPOINT_LOG: &str = "failpoints.log";

/// Descriptions of events that must not occur.
#[derive(Clone, Debug, Default)]
pub struct Problems(Arc<Mutex<Vec<String>>>);

impl Problems {
    pub fn add(&self, problem: String) {
        println!("{problem}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Injects a fault, and heals it at its end.
///
/// Panics if a server cannot be restarted.
pub async fn inject(product: &Product, fault: Fault, problems: &Problems) -> InjectedFault {
    let from = product.began.elapsed();
    println!("{:>7.1} s  {} for {:.1} s", from.as_secs_f64(), fault.kind, fault.duration.as_secs_f64());
    match &fault.kind {
        FaultKind::Killed(process) => {
            let mut program = product.processes[process].lock().await;
            program.kill().await;
            product.arm(*process, false);
            tokio::time::sleep(fault.duration).await;
            program.launch();
        }
        FaultKind::Stopped(process) => stop(product, *process, fault.duration, problems).await,
        FaultKind::Suspended(process) => {
            let program = product.processes[process].lock().await;
            program.suspend().await;
            tokio::time::sleep(fault.duration).await;
            program.resume().await;
        }
        FaultKind::DiesAtFailpoint(process, failpoint, hit) => {
            restart_with_failpoint(product, *process, failpoint, *hit).await;
            tokio::time::sleep(fault.duration).await;
        }
        FaultKind::Network(link, link_fault) => {
            if let Some(proxy) = product.links.get(link) {
                proxy.inject(*link_fault);
                tokio::time::sleep(fault.duration).await;
                proxy.heal();
            }
        }
        FaultKind::Provider(mode) => {
            product.fault_injector.set(Some(*mode));
            tokio::time::sleep(fault.duration).await;
            product.fault_injector.set(None);
        }
        _ => inject_into_server(product, &fault).await,
    }
    InjectedFault { kind: fault.kind, from, healed: product.began.elapsed() }
}

async fn inject_into_server(product: &Product, fault: &Fault) {
    match fault.kind {
        FaultKind::PostgresStopped => {
            let mut postgres = product.postgres.lock().await;
            postgres.kill().await;
            tokio::time::sleep(fault.duration).await;
            postgres.start_again().await;
        }
        FaultKind::BackendsKilled => {
            // If the database is unavailable, its connections are closed already.
            if let Ok(db) = product.database().await {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                let _ = db.batch_execute(sql).await;
            }
        }
        FaultKind::NatsKilled(number) => {
            let mut nats = product.nats.lock().await;
            nats.kill(number).await;
            tokio::time::sleep(fault.duration).await;
            nats.start_again(number).await;
        }
        FaultKind::NatsHung => {
            if let Broker::Single(server) = &*product.nats.lock().await {
                server.suspend().await;
                tokio::time::sleep(fault.duration).await;
                server.resume();
            }
        }
        FaultKind::NatsFull => {
            let nats = product.nats.lock().await;
            if let Broker::Single(server) = &*nats {
                let stream = Names::new("").ingest_stream();
                let before = server.limit_stream(&stream, None).await.expect("limiting the stream");
                tokio::time::sleep(fault.duration).await;
                server.limit_stream(&stream, Some(before)).await.expect("restoring the stream's limit");
            }
        }
        FaultKind::PostgresDiskFull => {
            let mut postgres = product.postgres.lock().await;
            postgres.fill_disk().await;
            tokio::time::sleep(fault.duration / 2).await;
            // Makes the WAL need a new segment, sooner than it would by itself.
            if let Ok(db) = product.database().await {
                let _ = db.batch_execute("SELECT pg_switch_wal()").await;
            }
            tokio::time::sleep(fault.duration / 2).await;
            postgres.free_disk();
            if postgres.recover().await {
                println!("          PostgreSQL had exited and was restarted");
            }
        }
        FaultKind::NatsDiskFull => {
            let mut nats = product.nats.lock().await;
            if let Broker::Single(server) = &mut *nats {
                server.fill_disk().await;
                tokio::time::sleep(fault.duration).await;
                server.free_disk();
                // A stream with a failed write accepts nothing until the server restarts.
                if !server.is_healthy().await {
                    println!("          NATS is restarted");
                    server.stop().await;
                    server.start_again().await;
                }
            }
        }
        FaultKind::ClockShifted(minutes) => {
            shift_clock(product, minutes).await;
            tokio::time::sleep(fault.duration).await;
            shift_clock(product, 0).await;
        }
        FaultKind::RedisKilled => {
            let mut redis = product.redis.lock().await;
            redis.kill().await;
            tokio::time::sleep(fault.duration).await;
            redis.start_again().await;
        }
        FaultKind::RedisHung => {
            let redis = product.redis.lock().await;
            redis.suspend().await;
            tokio::time::sleep(fault.duration).await;
            redis.resume();
        }
        FaultKind::RedisFlushed => {
            let _redis = product.redis.lock().await;
            assert!(flush(&product.redis_url).await.is_some(), "Redis did not confirm the flush");
        }
        _ => {}
    }
}

/// Retries until the database is available, if it is not or closes the connection.
pub async fn shift_clock(product: &Product, minutes: i16) {
    loop {
        if let Ok(db) = product.database().await
            && clock::set(&db, minutes).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn stop(product: &Product, process: Process, down: Duration, problems: &Problems) {
    let mut program = product.processes[&process].lock().await;
    let armed = product.arm(process, false);
    match program.terminate(STOP).await {
        Some(status) if status.success() || armed => {}
        Some(status) => problems.add(format!("{process} stopped with {status}; log: {}", program.log().display())),
        None => {
            problems.add(format!("{process} did not stop within {STOP:?}; log: {}", program.log().display()));
            program.kill().await;
        }
    }
    tokio::time::sleep(down).await;
    program.launch();
}

/// Restarts a process so that it dies at a failpoint.
async fn restart_with_failpoint(product: &Product, process: Process, failpoint: &str, hit: u32) {
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
    tokio::time::timeout(REDIS_TIMEOUT, stream.read_exact(&mut answer)).await.ok()?.ok()?;
    (&answer == b"+OK\r\n+OK\r\n").then_some(())
}

/// Restarts every process that has ended by itself, as an operator would. Only processes with a failpoint set may end.
pub async fn restart_exited(product: &Product, problems: &Problems) {
    let mut turns = tokio::time::interval(CHECK_INTERVAL);
    loop {
        turns.tick().await;
        for (process, program) in &product.processes {
            // Locked by the task that injects a fault into it.
            let Ok(mut program) = program.try_lock() else { continue };
            let Some(status) = program.try_exit_status() else { continue };
            program.wait_for_exit().await;
            let at = product.began.elapsed().as_secs_f64();
            if product.arm(*process, false) {
                println!("{at:>7.1} s  {process} died at its failpoint");
            } else {
                let log = program.log().display();
                problems.add(format!("{process} exited unexpectedly with {status} after {at:.1} s; log: {log}"));
            }
            program.launch();
        }
    }
}

/// Removes all remaining faults and waits until all processes are ready; the error names one that is not.
pub async fn heal(product: &Product) -> Result<(), String> {
    product.links.values().for_each(super::proxy::Proxy::heal);
    product.fault_injector.set(None);
    for (process, program) in &product.processes {
        let mut program = program.lock().await;
        if product.arm(*process, false) {
            program.kill().await;
            program.launch();
        }
    }
    let began = Instant::now();
    product.wait_until_all_ready().await?;
    println!("all processes are ready {:.1} s after the last fault", began.elapsed().as_secs_f64());
    Ok(())
}
