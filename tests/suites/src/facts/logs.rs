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
use envoy_types::pb::google::protobuf::Struct;
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

fn object(fields: &Struct) -> String {
    let sorted: BTreeMap<_, _> = fields.fields.iter().map(|(key, one)| (key, one.kind.as_ref())).collect();
    format!("{sorted:?}")
}
