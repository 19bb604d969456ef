//! Log of the server: pretty on a terminal, JSON otherwise.
//!
//! `serve` starts it once; the level can change while the server runs.

use std::fmt;
use std::io::IsTerminal as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt as lines, reload};

use crate::config::model::{LogConfig, LogFormat};
use crate::document::timestamp;
use crate::exit::CommandError;

/// Changes the level of a running log.
#[derive(Debug, Clone, Default)]
pub struct LogLevel(Option<reload::Handle<EnvFilter, Registry>>);

impl LogLevel {
    /// Sets the filter; an invalid filter changes nothing.
    pub fn set(&self, filter: &str) -> Result<(), CommandError> {
        let parsed = parse(filter)?;
        match &self.0 {
            Some(handle) => handle.reload(parsed).map_err(|e| CommandError::plain(format!("log.level: {e}"))),
            None => Ok(()),
        }
    }
}

/// Targets that log every failed request, or that a watched directory is gone; the status of a registry reports each
/// failure once.
const REPORTED_AS_STATUS: &str =
    "kube_client::client::builder=off,notify::inotify=off,rustls_platform_verifier=off";

fn parse(filter: &str) -> Result<EnvFilter, CommandError> {
    let quiet = format!("{REPORTED_AS_STATUS},{filter}");
    // A filter that names the target overrides this default.
    let names_it = filter.split(',').any(|directive| directive.starts_with("kube_client"));
    let whole = if names_it { filter } else { &quiet };
    let parsed = EnvFilter::builder().parse(whole);
    parsed.map_err(|e| CommandError::config(format!("log.level: `{filter}`: {e}")))
}

/// Starts the log of this process, on stderr.
pub fn start(config: &LogConfig) -> Result<LogLevel, CommandError> {
    let terminal = std::io::stderr().is_terminal();
    let pretty = match config.format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    let (filter, handle) = reload::Layer::new(parse(&config.level)?);
    let layer = if pretty {
        lines::layer().with_writer(std::io::stderr).with_ansi(terminal).with_target(false).boxed()
    } else {
        lines::layer().with_writer(std::io::stderr).event_format(JsonLine).boxed()
    };
    let started = tracing_subscriber::registry().with(filter).with(layer).try_init();
    started.map_err(|e| CommandError::plain(format!("cannot start the log: {e}")))?;
    Ok(LogLevel(Some(handle)))
}

/// Formats each event as one flat JSON object per line: `ts level target msg` and the event's fields.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writeln!(to, "{}", line(event, timestamp(jiff::Timestamp::now())))
    }
}

/// The common keys come first, for readability.
fn line(event: &Event<'_>, now: String) -> String {
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let message = fields.0.remove("message").unwrap_or_default();
    let level = event.metadata().level().as_str().to_lowercase();
    let mut out = String::from("{");
    let mut put = |name: &str, value: &Value| {
        let comma = if out.len() > 1 { "," } else { "" };
        out.push_str(&format!("{comma}{}:{value}", Value::from(name)));
    };
    put("ts", &now.into());
    put("level", &level.into());
    put("msg", &message);
    put("target", &event.metadata().target().into());
    // A field with one of these names would make the line ambiguous.
    let own = fields.0.iter().filter(|(name, _)| !matches!(name.as_str(), "ts" | "level" | "msg" | "target"));
    own.for_each(|(name, value)| put(name, value));
    out.push('}');
    out
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Buffer(Arc<parking_lot::Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn json_line_is_one_flat_object() {
        let buffer = Buffer::default();
        let to = buffer.clone();
        let layer = lines::layer().with_writer(move || to.clone()).event_format(JsonLine);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(registry = "file", count = 3, "two\nlines");
        });
        let text = String::from_utf8(buffer.0.lock().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["level"], &line["msg"]), (&"warn".into(), &"two\nlines".into()));
        assert!(text.starts_with("{\"ts\":\""), "{text}");
        assert_eq!((&line["registry"], &line["count"]), (&"file".into(), &3.into()));
        assert!(line["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')), "{text}");
    }

    #[test]
    fn times_of_lines_have_three_decimals() {
        let at = |millis| timestamp(jiff::Timestamp::from_millisecond(millis).unwrap());
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(59_590), "1970-01-01T00:00:59.590Z");
    }

    #[test]
    fn invalid_level_is_rejected_and_changes_nothing() {
        assert!(LogLevel::default().set("a=b=c").is_err());
        assert!(LogLevel::default().set("warn,tributary=debug").is_ok());
    }

    #[test]
    fn gone_directories_are_reported_by_their_registry() {
        assert!(parse("info").unwrap().to_string().contains("notify::inotify=off"));
    }

    #[test]
    fn only_a_filter_of_the_library_shows_its_requests() {
        let quiet = |filter| parse(filter).unwrap().to_string().contains("builder=off");
        assert!(quiet("warn,tributary_kube_client=debug"));
        assert!(!quiet("warn,kube_client=debug"));
    }
}
