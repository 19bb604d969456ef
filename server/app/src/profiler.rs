//! CPU profiles of this process, in the format of pprof.
//!
//! The admin surface calls it on request, if `admin.profile` is set; nothing is installed before. A profile samples the stacks of
//! running threads by a timer. One runs at a time: the timer belongs to the process.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use pprof::protos::Message as _;
use pprof::{Error, Frames, ProfilerGuard, ProfilerGuardBuilder, Symbol};

/// Samples a second; not a divisor of common intervals, so that work at these is not over-represented.
const FREQUENCY: i32 = 99;
/// Libraries in which no stack is walked: a thread may hold their locks.
const UNSAFE: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Another profile is being taken.
    Running,
    /// The profile could not be taken.
    Failed(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Running => Self::Running,
            Error::CreatingError => Self::Failed(
                "no temporary file can be created; set TMPDIR to a writable directory".to_owned(),
            ),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Samples the CPU for a time. Returns a compressed profile. Dropping the future ends it.
pub async fn cpu(time: Duration) -> Result<Vec<u8>, Failure> {
    // The first stack of a process reads tables for seconds: neither a sample nor a thread of the server should.
    let warmed = tokio::task::spawn_blocking(|| std::backtrace::Backtrace::force_capture().status());
    warmed.await.map_err(|e| Failure::Failed(e.to_string()))?;
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&UNSAFE).build()?;
    tokio::time::sleep(time).await;
    // names are looked up in the program's file
    let built = tokio::task::spawn_blocking(move || build(&guard)).await;
    built.map_err(|e| Failure::Failed(e.to_string()))?
}

fn build(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>, Failure> {
    let profile = guard.report().frames_post_processor(without_sampler).build()?.pprof()?;
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(&profile.encode_to_vec()).and_then(|()| out.finish());
    written.map_err(|e| Failure::Failed(e.to_string()))
}

/// Removes the frames of the sampler itself, which would else be what uses the time.
fn without_sampler(stack: &mut Frames) {
    let is_sampler = |symbol: &Symbol| {
        let name = symbol.name();
        ["backtrace::", "pprof::", "<pprof::"].iter().any(|begin| name.starts_with(begin))
    };
    stack.frames.retain(|frame| !frame.iter().all(is_sampler));
}

/// Keeps samples that do not fit in memory in this directory, if there is no directory for temporary files, as in a container whose
/// file system is read-only.
pub fn spill_to(directory: &Path) {
    if tempfile::tempfile().is_err() {
        // it fails if it is set already
        let _ = tempfile::env::override_temp_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use pprof::protos::Profile;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[inline(never)]
    fn busy_for_the_profile(stop: &CancellationToken) -> u64 {
        let mut sum = 0u64;
        while !stop.is_cancelled() {
            sum = (0..10_000u64).fold(sum, |sum, n| std::hint::black_box(sum.rotate_left(7) ^ n));
        }
        sum
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn profile_names_the_busy_function_and_runs_alone() {
        let stop = CancellationToken::new();
        let busy = tokio::task::spawn_blocking({
            let stop = stop.clone();
            move || busy_for_the_profile(&stop)
        });
        // a failed assertion must end the busy thread, too
        let guard = stop.drop_guard();
        // either may begin first
        let long = Duration::from_secs(1);
        let compressed = match tokio::join!(cpu(long), cpu(long)) {
            (Ok(profile), Err(Failure::Running)) | (Err(Failure::Running), Ok(profile)) => profile,
            other => panic!("one profile and one refusal, not {other:?}"),
        };
        drop(guard);
        busy.await.unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(&*compressed).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&*bytes).unwrap();
        let is_named = |name: &String| name.contains("busy_for_the_profile");
        assert!(profile.string_table.iter().any(is_named), "{:?}", profile.string_table);
        assert!(!profile.sample.is_empty());
        let is_sampler = |name: &String| name.contains("trace_unsynchronized");
        assert!(!profile.string_table.iter().any(is_sampler), "{:?}", profile.string_table);
    }
}
