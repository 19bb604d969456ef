//! CPU, memory and written bytes of this process, from `/proc`.

use std::fs;
use std::time::Duration;

/// Returns the CPU time of this process so far, user and system.
pub(crate) fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    // Linux counts in USER_HZ, which is 100 on every supported machine.
    Duration::from_millis(ticks * 10)
}

/// Returns the CPU time of this process's threads of a name so far, in nanoseconds of the scheduler.
pub(crate) fn thread_cpu(name: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|task| task.path());
    let named =
        tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|own| own.trim() == name));
    let spent = named.filter_map(|task| {
        let stat = fs::read_to_string(task.join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}

/// Returns the bytes that this process has given to the system to write so far.
pub(crate) fn written() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar:")).unwrap_or_default();
    line.trim().parse().unwrap_or_default()
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> u64 {
    status("VmRSS:")
}

/// Returns the resident bytes of files, which are the binary's: how many depends on the system's cache of files.
pub(crate) fn code() -> u64 {
    status("RssFile:")
}

/// Returns the maximum of resident memory of this process so far, in bytes.
pub(crate) fn peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024
}
