//! Log of a test, for tests of what a server logs. Each test file that needs it includes it beside the world.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

use crate::world::LONG;

/// Log of this thread, on which all tasks of a test run.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub(crate) fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(lines))
    }
    /// Returns the lines that contain this text.
    pub(crate) fn lines(&self, text: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().clone()).unwrap();
        all.lines().filter(|line| line.contains(text)).map(ToOwned::to_owned).collect()
    }
    /// Waits for a line with this text and returns the last one.
    pub(crate) async fn until(&self, text: &str) -> String {
        let waiting = async {
            loop {
                if let Some(line) = self.lines(text).pop() {
                    return line;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(LONG, waiting).await;
        found.unwrap_or_else(|_| panic!("{text:?} was not logged: {:?}", self.lines("")))
    }
}
