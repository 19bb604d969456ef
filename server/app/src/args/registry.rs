//! Values of `--registry` and `--registries`: a kind, with a location for kinds that need one.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use tributary_consul::config::{Address, ConsulFields};
use tributary_model::Code;
use tributary_service_entry::FileFields;

use crate::config::RegistryKind;
use crate::config::model::{RegistryConfig, Source};
use crate::exit::{CommandError, Exit};

/// Parses the text with [`parse_registry`]. Clap's own error repeats the text, which may contain a password
/// or a token.
#[derive(Clone)]
pub(super) struct RegistryParser;

impl TypedValueParser for RegistryParser {
    type Value = RegistryConfig;
    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let wrong = |what: String| {
            let message = format!("invalid value for '--registry <KIND[=WHERE]>': {what}\n");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        };
        let text = value.to_str().ok_or_else(|| wrong("it is not UTF-8".to_owned()))?;
        parse_registry(text).map_err(|failure| wrong(failure.to_string()))
    }
}

/// Parses `KIND[=WHERE]`.
pub(super) fn parse_registry(text: &str) -> Result<RegistryConfig, CommandError> {
    let (kind, location) = match text.split_once('=') {
        Some((kind, location)) => (kind, Some(location)),
        None => (text, None),
    };
    let kind = RegistryKind::from(kind);
    let wrong = |message: &str| Err(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message));
    match (&kind, location) {
        (RegistryKind::File, Some(location)) if !location.is_empty() => {
            Ok(Source::File(FileFields { path: Some(PathBuf::from(location)) }).into())
        }
        (RegistryKind::File, _) => wrong("`--registry file` needs a directory: file=DIR"),
        (RegistryKind::Consul, None) => Ok(RegistryConfig::of_kind(kind.clone())),
        (RegistryKind::Consul, Some(location)) => {
            let addresses: Vec<String> = location.split(',').map(|one| one.trim().to_owned()).collect();
            for address in &addresses {
                // The text may contain a password and is not printed.
                Address::parse(address)
                    .map_err(|e| CommandError::new(Exit::Usage, Code::FLAG_INVALID, e.to_string()))?;
            }
            let fields = ConsulFields { addresses: Some(addresses), ..ConsulFields::default() };
            Ok(Source::Consul(Box::new(fields)).into())
        }
        (RegistryKind::Kubernetes, None) => Ok(RegistryConfig::of_kind(kind.clone())),
        (RegistryKind::Kubernetes, Some(_)) => {
            wrong("`--registry kubernetes` takes no location; see --kubeconfig and --context")
        }
        (RegistryKind::Registered(_), None) => Ok(RegistryConfig::of_kind(kind.clone())),
        // `check` knows the kinds that the binary adds
        (RegistryKind::Registered(_), Some(_)) => {
            let misplaced = vec![RegistryConfig::LOCATION.to_owned()];
            Ok(RegistryConfig { misplaced, ..RegistryConfig::of_kind(kind) })
        }
    }
}

/// Parses a kind without a location; a kind that needs a location needs `--registry`.
pub(super) fn parse_kind(text: &str) -> Result<RegistryConfig, CommandError> {
    parse_registry(text.trim())
}
