//! Access logs of listeners, HTTP connection managers and TCP proxies: lines of a file, as Istio sets them.

use envoy_types::pb::envoy::config::accesslog::v3 as pb;
use envoy_types::pb::google::protobuf::Any;
use pb::access_log::ConfigType;
use pb::access_log_filter::FilterSpecifier;
use serde_json::{Map, Value};
use tributary_model::{AccessLog, LogEncoding};
use tributary_proto::wire::{Field, Writer};

const NAME: &str = "envoy.access_loggers.file";
const FILE_LOG: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
/// Response flag of a connection that no filter chain matches.
const NO_ROUTE: &str = "NR";
/// Command that only a formatter of its own name knows, and the formatter.
const WITHOUT_QUERY: &str = "%REQ_WITHOUT_QUERY";
const FORMATTER: &str = "envoy.formatter.req_without_query";
const FORMATTER_TYPE: &str =
    "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery";

/// Line of a request or connection without a format.
const TEXT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% \
    \"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% \
    %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \
    \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% \
    %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% \
    %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n";

/// Fields of an object without a format, in order of name.
const FIELDS: [(&str, &str); 24] = [
    ("authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    ("upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"),
    ("upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
];

/// Returns the log of requests or connections.
pub(super) fn requests(log: Option<&AccessLog>) -> Vec<pb::AccessLog> {
    log.into_iter().map(|log| file(log, None)).collect()
}

/// Returns the log of connections that no filter chain matches.
pub(super) fn unmatched(log: Option<&AccessLog>) -> Vec<pb::AccessLog> {
    let flags = pb::ResponseFlagFilter { flags: vec![NO_ROUTE.to_owned()] };
    let filter = pb::AccessLogFilter { filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(flags)) };
    log.into_iter().map(|log| file(log, Some(filter.clone()))).collect()
}

fn file(log: &AccessLog, filter: Option<pb::AccessLogFilter>) -> pb::AccessLog {
    let mut wire = Writer::with_capacity(1_024);
    wire.string(1, &log.file);
    wire.message(5, |w| match log.encoding {
        LogEncoding::Text => text(w, log.format.as_deref().unwrap_or_default()),
        LogEncoding::Json => json(w, log.format.as_deref().unwrap_or_default()),
    });
    let config = Any { type_url: FILE_LOG.to_owned(), value: wire.finish() };
    pb::AccessLog { name: NAME.to_owned(), filter, config_type: Some(ConfigType::TypedConfig(config)) }
}

/// Writes the format of a line; an entry ends its line.
fn text(wire: &mut Writer, format: &str) {
    let end = if format.ends_with('\n') { "" } else { "\n" };
    let line = if format.is_empty() { TEXT.to_owned() } else { format!("{format}{end}") };
    wire.message(5, |w| w.present(3, &line));
    formatters(wire, line.contains(WITHOUT_QUERY));
}

/// Writes the format of an object; one that is no object has the usual fields.
fn json(wire: &mut Writer, format: &str) {
    let fields = serde_json::from_str(format).unwrap_or_else(|_| usual());
    let without_query = |value: &Value| value.as_str().is_some_and(|value| value.contains(WITHOUT_QUERY));
    wire.message(2, |w| object(w, &fields));
    formatters(wire, fields.values().any(without_query));
    wire.message(7, |_| ());
}

fn usual() -> Map<String, Value> {
    FIELDS.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// Writes a `google.protobuf.Struct`, in order of key.
fn object(wire: &mut Writer, fields: &Map<String, Value>) {
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    for (name, one) in sorted {
        wire.entry(1, name, |w| value(w, one));
    }
}

/// Writes a `google.protobuf.Value`. The reader of the format bounds its depth.
fn value(wire: &mut Writer, value: &Value) {
    match value {
        Value::Null => wire.varint(1, 0),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            wire.field(2, &Field::Fixed64(number.to_bits()));
        }
        Value::String(text) => wire.present(3, text),
        Value::Bool(flag) => wire.varint(4, u64::from(*flag)),
        Value::Object(fields) => wire.message(5, |w| object(w, fields)),
        Value::Array(list) => wire.message(6, |w| {
            for one in list {
                w.message(1, |w| self::value(w, one));
            }
        }),
    }
}

fn formatters(wire: &mut Writer, without_query: bool) {
    if without_query {
        wire.message(6, |w| {
            w.string(1, FORMATTER);
            w.message(2, |w| w.string(1, FORMATTER_TYPE));
        });
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
    use envoy_types::pb::envoy::config::core::v3::{SubstitutionFormatString, data_source::Specifier};
    use envoy_types::pb::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log};
    use envoy_types::pb::google::protobuf::value::Kind;
    use prost::Message;

    use super::*;

    fn mk_log(encoding: LogEncoding, format: Option<&str>) -> AccessLog {
        AccessLog { file: "/dev/stdout".into(), encoding, format: format.map(Into::into) }
    }
    fn decoded(log: &AccessLog) -> SubstitutionFormatString {
        let Some(ConfigType::TypedConfig(config)) = file(log, None).config_type else { panic!() };
        let found = FileAccessLog::decode(&config.value[..]).unwrap();
        assert_eq!((&*found.path, &*config.type_url), ("/dev/stdout", FILE_LOG));
        let Some(file_access_log::AccessLogFormat::LogFormat(format)) = found.access_log_format else {
            panic!("no format")
        };
        format
    }
    fn line(format: Option<&str>) -> String {
        let format = decoded(&mk_log(LogEncoding::Text, format));
        let Some(Format::TextFormatSource(source)) = format.format else { panic!("no text") };
        let Some(Specifier::InlineString(line)) = source.specifier else { panic!("no line") };
        line
    }
    fn fields(format: Option<&str>) -> Vec<(String, Kind)> {
        let format = decoded(&mk_log(LogEncoding::Json, format));
        assert!(format.json_format_options.is_some());
        let Some(Format::JsonFormat(object)) = format.format else { panic!("no object") };
        let mut fields: Vec<_> = object.fields.into_iter().map(|(k, v)| (k, v.kind.unwrap())).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    }

    #[test]
    fn line_ends_once() {
        assert_eq!((line(Some("a %PROTOCOL%")), line(Some("a\n"))), ("a %PROTOCOL%\n".into(), "a\n".into()));
        assert!(
            line(None).starts_with("[%START_TIME%] \"%REQ(:METHOD)%")
                && line(None).ends_with("%ROUTE_NAME%\n")
        );
        assert_eq!((line(None), line(Some(""))), (TEXT.into(), TEXT.into()));
        assert_eq!(TEXT.matches('%').count() / 2, 24, "one for each of the usual fields");
    }

    #[test]
    fn object_has_the_values_of_its_format() {
        let text = |text: &str| Kind::StringValue(text.to_owned());
        let found = fields(Some("{\"b\": \"%PROTOCOL%\", \"a\": 1.5, \"c\": {\"d\": [true, null]}}"));
        assert_eq!((&*found[0].0, &found[0].1), ("a", &Kind::NumberValue(1.5)));
        assert_eq!((&*found[1].0, &found[1].1), ("b", &text("%PROTOCOL%")));
        let Kind::StructValue(nested) = &found[2].1 else { panic!() };
        let Some(Kind::ListValue(list)) = &nested.fields["d"].kind else { panic!() };
        assert_eq!(list.values[0].kind, Some(Kind::BoolValue(true)));
        assert!(matches!(list.values[1].kind, Some(Kind::NullValue(_))));
        for usual in [None, Some("no object"), Some("[]")] {
            let found = fields(usual);
            assert_eq!(found.len(), FIELDS.len(), "{usual:?}");
            let want = FIELDS.map(|(name, value)| (name.to_owned(), text(value)));
            assert_eq!(found, want);
        }
        assert!(FIELDS.is_sorted());
    }

    #[test]
    fn equal_formats_are_equal_bytes() {
        let bytes = |format| file(&mk_log(LogEncoding::Json, Some(format)), None).encode_to_vec();
        assert_eq!(bytes("{\"a\":\"1\",\"b\":\"2\"}"), bytes("{ \"b\": \"2\", \"a\": \"1\" }"));
    }

    #[test]
    fn formatter_is_there_if_a_format_needs_it() {
        let names = |encoding, format| {
            let found = decoded(&mk_log(encoding, Some(format)));
            found.formatters.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(LogEncoding::Text, "%REQ_WITHOUT_QUERY(:PATH)%"), [FORMATTER]);
        assert_eq!(names(LogEncoding::Json, "{\"a\": \"%REQ_WITHOUT_QUERY(:PATH)%\"}"), [FORMATTER]);
        assert_eq!(names(LogEncoding::Text, "%REQ(:PATH)%"), [""; 0]);
    }

    #[test]
    fn listener_logs_only_what_no_chain_matches() {
        let log = mk_log(LogEncoding::Text, None);
        assert!(requests(Some(&log))[0].filter.is_none() && requests(None).is_empty());
        let Some(FilterSpecifier::ResponseFlagFilter(flags)) =
            unmatched(Some(&log))[0].filter.clone().and_then(|filter| filter.filter_specifier)
        else {
            panic!("no filter")
        };
        assert_eq!(flags.flags, ["NR"]);
    }
}
