//! Facts of access logs: the file, the format and the filter of each.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::accesslog::v3::access_log::ConfigType;
use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::{AccessLog, AccessLogFilter};
use envoy_types::pb::envoy::config::core::v3::SubstitutionFormatString;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::file_access_log::AccessLogFormat;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use prost::Message;

/// Returns logs as text; empty without one.
pub(super) fn entries(logs: &[AccessLog]) -> Result<String> {
    let texts = logs.iter().map(entry).collect::<Result<Vec<_>>>()?;
    Ok(texts.join(" and "))
}

fn entry(log: &AccessLog) -> Result<String> {
    let Some(ConfigType::TypedConfig(config)) = &log.config_type else {
        anyhow::bail!("{} has no configuration", log.name)
    };
    let file = FileAccessLog::decode(&config.value[..]).context("decode a file access log")?;
    let format = match &file.access_log_format {
        Some(AccessLogFormat::LogFormat(format)) => format_of(format),
        other => format!("{other:?}"),
    };
    let filter = log.filter.as_ref().map(filter).unwrap_or_default();
    Ok(format!("{} {}{filter} {format}", log.name, file.path))
}

fn filter(filter: &AccessLogFilter) -> String {
    match &filter.filter_specifier {
        Some(FilterSpecifier::ResponseFlagFilter(flags)) => format!(" if {}", flags.flags.join(",")),
        other => format!(" if {other:?}"),
    }
}

fn format_of(format: &SubstitutionFormatString) -> String {
    let body = match &format.format {
        Some(Format::TextFormatSource(source)) => match &source.specifier {
            Some(Specifier::InlineString(text)) => format!("{text:?}"),
            other => format!("{other:?}"),
        },
        Some(Format::JsonFormat(fields)) => object(fields),
        other => format!("{other:?}"),
    };
    let formatters: String = format.formatters.iter().map(|one| format!(" with {}", one.name)).collect();
    let options = if format.json_format_options.is_some() { " with options" } else { "" };
    format!("{body}{formatters}{options}")
}

/// Returns an object with its fields in order.
fn object(fields: &Struct) -> String {
    let fields: BTreeMap<_, _> = fields.fields.iter().collect();
    let texts = fields.into_iter().map(|(name, one)| format!("{name:?}: {}", value(one)));
    format!("{{{}}}", texts.collect::<Vec<_>>().join(", "))
}

fn value(value: &Value) -> String {
    match &value.kind {
        Some(Kind::StringValue(text)) => format!("{text:?}"),
        Some(Kind::NumberValue(number)) => number.to_string(),
        Some(Kind::BoolValue(flag)) => flag.to_string(),
        Some(Kind::StructValue(fields)) => object(fields),
        Some(Kind::ListValue(list)) => {
            format!("[{}]", list.values.iter().map(self::value).collect::<Vec<_>>().join(", "))
        }
        Some(Kind::NullValue(_)) | None => "null".to_owned(),
    }
}
