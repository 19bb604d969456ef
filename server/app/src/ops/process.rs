//! Metrics of the process itself, read from the system at each scrape. Where the system does not have them, they are absent.

use crate::admin::metrics::Sample;

/// Adds the samples of the process.
#[cfg(target_os = "linux")]
pub fn add(out: &mut Vec<Sample>) {
    // An error means that the system hides its processes.
    let _ = linux(out);
}

/// Adds nothing.
#[cfg(not(target_os = "linux"))]
pub fn add(_: &mut Vec<Sample>) {}

#[cfg(target_os = "linux")]
fn linux(out: &mut Vec<Sample>) -> procfs::ProcResult<()> {
    use procfs::{CurrentSI as _, WithCurrentSystemInfo as _};

    use crate::admin::metrics as m;

    let process = procfs::process::Process::myself()?;
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let cpu = stat.utime.saturating_add(stat.stime) as f64 / ticks;
    let booted = procfs::KernelStats::current()?.btime as f64;
    out.push(Sample::new(m::PROCESS_CPU, &[], cpu));
    out.push(Sample::new(m::PROCESS_MEMORY, &[], stat.rss_bytes().get() as f64));
    out.push(Sample::new(m::PROCESS_START, &[], booted + stat.starttime as f64 / ticks));
    out.push(Sample::new(m::PROCESS_FILES, &[], process.fd_count()? as f64));
    if let procfs::process::LimitValue::Value(most) = process.limits()?.max_open_files.soft_limit {
        out.push(Sample::new(m::PROCESS_MOST_FILES, &[], most as f64));
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::admin::metrics as m;

    #[test]
    fn process_reports_plausible_values() {
        let mut out = Vec::new();
        add(&mut out);
        let value = |info: &m::Info| {
            let sample = out.iter().find(|sample| sample.info == info).unwrap();
            let m::Value::Number(value) = sample.value else { return f64::NAN };
            value
        };
        assert!(value(m::PROCESS_MEMORY) > 1e6);
        assert!(value(m::PROCESS_FILES) >= 3.0);
        let now = jiff::Timestamp::now().as_second() as f64;
        let age = now - value(m::PROCESS_START);
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        assert!(value(m::PROCESS_CPU) >= 0.0);
    }
}
