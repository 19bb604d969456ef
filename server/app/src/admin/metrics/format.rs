//! Text formats of `/metrics`, and the choice between them by the header `Accept`.
//!
//! `/metrics` calls it for each scrape. As in the client libraries of Prometheus, a client gets OpenMetrics only if it names it, and
//! text of version 0.0.4 in every other case, because each scraper reads that.

use super::{Info, Kind};

const OPEN_METRICS: &str = "application/openmetrics-text";
const PLAIN: &str = "text/plain";

/// Text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Prometheus,
}

impl Format {
    /// Returns the known format that the client prefers; of two with equal weight, the one that it names first.
    #[must_use]
    pub fn accepted(header: &str) -> Self {
        let known = header.split(',').filter_map(offer);
        let best = known.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Self::Prometheus, |(format, _)| format)
    }
    /// Content type of the answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
    /// Returns the name of a metric in the lines of its type and help. OpenMetrics leaves the ending of counters to the samples.
    #[must_use]
    pub fn family(self, info: &Info) -> String {
        match (self, info.kind) {
            (Self::Prometheus, Kind::Counter) => info.in_text(),
            _ => info.family(),
        }
    }
}

/// Returns the format of one part of the header with its weight; nothing if it is unknown, of another version, or has weight 0.
fn offer(part: &str) -> Option<(Format, f32)> {
    let mut fields = part.split(';').map(str::trim);
    let (format, own) = match fields.next()? {
        name if name.eq_ignore_ascii_case(OPEN_METRICS) => (Format::OpenMetrics, "1.0.0"),
        name if name.eq_ignore_ascii_case(PLAIN) => (Format::Prometheus, "0.0.4"),
        _ => return None,
    };
    let mut weight = 1.0;
    for (name, value) in fields.filter_map(|field| field.split_once('=')) {
        match (name.trim(), value.trim().trim_matches('"')) {
            ("q" | "Q", value) => weight = value.parse::<f32>().ok().filter(|q| (0.0..=1.0).contains(q))?,
            ("version", version) if version != own => return None,
            _ => {}
        }
    }
    (weight > 0.0).then_some((format, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_the_one_that_the_client_prefers() {
        use Format::{OpenMetrics, Prometheus};
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (header, want) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/html,application/xhtml+xml;q=0.9", Prometheus),
            ("text/plain", Prometheus),
            ("text/plain;version=0.0.4", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            ("Application/OpenMetrics-Text; version=\"1.0.0\"; charset=utf-8", OpenMetrics),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.5",
                OpenMetrics,
            ),
            (of_prometheus, OpenMetrics),
            // Versions that are not served, and no weight.
            ("application/openmetrics-text;version=0.0.1", Prometheus),
            ("application/openmetrics-text;version=2.0.0,*/*", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=nonsense", Prometheus),
            // Weight goes before order, order decides between equals.
            ("application/openmetrics-text;q=0.2,text/plain;q=0.7", Prometheus),
            ("text/plain;q=0.2,application/openmetrics-text;q=0.7", OpenMetrics),
            ("text/plain,application/openmetrics-text", Prometheus),
            ("application/openmetrics-text,text/plain", OpenMetrics),
            (",;,=;q=,application/openmetrics-text", OpenMetrics),
        ] {
            assert_eq!(Format::accepted(header), want, "{header}");
        }
    }
}
