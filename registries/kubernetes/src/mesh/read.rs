//! YAML to [`Mesh`], field by field. Reading is bounded and total: every fault belongs to a field.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tributary_model::settings::ClusterLocal;
use tributary_model::{
    HostPattern, HttpRetries, LocalityBalancing, Namespace, PathNormalization, RequestTracing, Settings,
    Visibility,
};

use super::locality;
use super::networks::MeshNetworks;
use super::requests;
use super::tracing;
use super::tree::{self, Tree, duration, flag, get, is, list, map};
use super::visibility::VisibilityPolicy;
use super::{Fault, Field, Mesh};
use crate::label_selector::Selectors;

/// Largest number of reported ignored fields.
const MOST_IGNORED: usize = 64;
const MOST_HOSTS: usize = 10_000;
const MOST_NAMESPACES: usize = 1024;
const MOST_ALIASES: usize = 1_000;

pub(super) fn read(mesh: Option<&str>, networks: Option<&str>) -> Mesh {
    let mut reader = Reader::default();
    match mesh.map_or_else(|| Ok(Tree::new()), tree::parse) {
        Ok(tree) => reader.mesh(&tree),
        Err(why) => Field::OF_MESH.into_iter().for_each(|field| reader.fault(field, &why)),
    }
    match networks.map_or_else(|| Ok(Tree::new()), tree::parse).and_then(|tree| MeshNetworks::parse(&tree)) {
        Ok(networks) => reader.mesh.networks = networks,
        Err(why) => reader.fault(Field::Networks, &why),
    }
    let Reader { mesh, faults, ignored } = reader;
    Mesh { faults: faults.into(), ignored: ignored.into_iter().collect(), ..mesh }
}

#[derive(Default)]
struct Reader {
    mesh: Mesh,
    faults: Vec<Fault>,
    ignored: BTreeSet<Arc<str>>,
}

impl Reader {
    fn fault(&mut self, field: Field, why: &str) {
        self.faults.push(Fault { field, why: why.into() });
    }
    fn ignore(&mut self, name: impl AsRef<str>) {
        if self.ignored.len() < MOST_IGNORED {
            self.ignored.insert(name.as_ref().chars().take(80).collect::<String>().into());
        }
    }
    /// Reports the keys of a map that are not known fields.
    fn ignore_rest(&mut self, tree: &Tree, under: &str, known: &[&str]) {
        for key in tree.keys().filter(|key| !known.iter().any(|name| is(key, name))) {
            self.ignore(format!("{under}{key}"));
        }
    }
    fn mesh(&mut self, tree: &Tree) {
        let known = Field::OF_MESH.map(Field::as_str);
        self.ignore_rest(tree, "", &known);
        for field in Field::OF_MESH {
            let Some(value) = get(tree, field.as_str()) else { continue };
            if let Err(why) = self.field(field, value) {
                self.fault(field, &why);
            }
        }
        self.log_format();
    }
    /// Checks the format of the access log against its encoding.
    fn log_format(&mut self) {
        if let Err(why) = requests::check_format(self.mesh.access_log().as_ref()) {
            self.mesh.access_log_format = None;
            self.fault(Field::AccessLogFormat, &why);
        }
    }
    fn field(&mut self, field: Field, value: &Value) -> Result<(), String> {
        match field {
            Field::Discovery => self.mesh.discovery = Selectors::parse(value)?,
            Field::TrustDomain => self.mesh.trust_domain = trust_domain(value)?,
            Field::TrustDomainAliases => self.mesh.trust_domain_aliases = aliases(value)?,
            Field::RootNamespace => self.mesh.root_namespace = root_namespace(value)?,
            Field::DefaultExport => self.mesh.default_export = default_export(value)?,
            Field::ConnectTimeout => self.mesh.connect_timeout = Some(duration(value)?),
            Field::Outbound => self.mesh.block_unknown = self.outbound(map(value)?)?,
            Field::HttpRetries => self.mesh.http_retries = Some(self.http_retries(map(value)?)?.into()),
            Field::AccessLogFile => self.mesh.access_log_file = requests::log_text(value)?,
            Field::AccessLogFormat => self.mesh.access_log_format = requests::log_text(value)?,
            Field::AccessLogEncoding => self.mesh.access_log_encoding = requests::log_encoding(value)?,
            Field::EnableTracing => self.mesh.enable_tracing = Some(flag(value)?),
            Field::ProxyConfig => self.mesh.tracing = self.proxy_config(map(value)?)?,
            Field::AutoMtls => self.mesh.auto_mtls = Some(flag(value)?),
            Field::PathNormalization => self.mesh.path_normalization = self.paths(map(value)?)?,
            Field::Locality => self.mesh.locality = Some(self.locality(map(value)?)?.into()),
            Field::ServiceSettings => self.mesh.cluster_local = self.service_settings(value)?,
            Field::Entries => self.mesh.entries = self.entries(map(value)?)?,
            Field::Networks => {}
        }
        Ok(())
    }
    fn outbound(&mut self, tree: &Tree) -> Result<Option<bool>, String> {
        self.ignore_rest(tree, "outboundTrafficPolicy.", &["mode"]);
        match get(tree, "mode").map(|mode| mode.as_str().unwrap_or_default()) {
            None => Ok(None),
            Some("REGISTRY_ONLY") => Ok(Some(true)),
            Some("ALLOW_ANY") => Ok(Some(false)),
            Some("ALLOW_ANY_DYNAMIC_DNS") => {
                self.ignore("outboundTrafficPolicy.mode ALLOW_ANY_DYNAMIC_DNS (served as ALLOW_ANY)");
                Ok(Some(false))
            }
            Some(other) => Err(format!("mode {other:?} is not one of REGISTRY_ONLY, ALLOW_ANY")),
        }
    }
    /// Parses `pathNormalization`. `DEFAULT` is that of Istio, `BASE`.
    fn paths(&mut self, tree: &Tree) -> Result<Option<PathNormalization>, String> {
        self.ignore_rest(tree, "pathNormalization.", &["normalization"]);
        Ok(Some(match get(tree, "normalization").map(|mode| mode.as_str().unwrap_or_default()) {
            None => return Ok(None),
            Some("DEFAULT" | "BASE") => PathNormalization::Base,
            Some("NONE") => PathNormalization::None,
            Some("MERGE_SLASHES") => PathNormalization::MergeSlashes,
            Some("DECODE_AND_MERGE_SLASHES") => PathNormalization::DecodeAndMergeSlashes,
            Some(other) => {
                return Err(format!(
                    "normalization {other:?} is not one of NONE, BASE, MERGE_SLASHES, DECODE_AND_MERGE_SLASHES"
                ));
            }
        }))
    }
    /// Parses `defaultConfig`; of a proxy's configuration only the tracing is not part of its bootstrap.
    fn proxy_config(&mut self, tree: &Tree) -> Result<RequestTracing, String> {
        self.ignore_rest(tree, "defaultConfig.", &["tracing"]);
        let Some(tracing) = get(tree, "tracing") else { return Ok(RequestTracing::default()) };
        let tree = map(tracing).map_err(|why| format!("tracing {why}"))?;
        self.ignore_rest(tree, "defaultConfig.tracing.", &tracing::FIELDS);
        tracing::parse(tree)
    }
    fn http_retries(&mut self, tree: &Tree) -> Result<HttpRetries, String> {
        self.ignore_rest(tree, "defaultHttpRetryPolicy.", &requests::RETRY_FIELDS);
        requests::retries(tree)
    }
    fn locality(&mut self, tree: &Tree) -> Result<LocalityBalancing, String> {
        self.ignore_rest(tree, "localityLbSetting.", &locality::FIELDS);
        let (setting, ignored) = locality::parse(tree)?;
        ignored.into_iter().for_each(|name| self.ignore(format!("localityLbSetting.{name}")));
        Ok(setting)
    }
    /// Parses `serviceSettings`; the last entry of a pattern wins.
    fn service_settings(&mut self, value: &Value) -> Result<ClusterLocal, String> {
        let items = value.as_array().ok_or("is not a list")?;
        let mut all: Vec<(HostPattern, bool)> = Vec::new();
        for item in items {
            let item = map(item)?;
            self.ignore_rest(item, "serviceSettings[].", &["settings", "hosts"]);
            let settings = get(item, "settings").map(map).transpose()?;
            let empty = Tree::new();
            let settings = settings.unwrap_or(&empty);
            self.ignore_rest(settings, "serviceSettings[].settings.", &["clusterLocal"]);
            let local = match get(settings, "clusterLocal") {
                None => false,
                Some(local) => local.as_bool().ok_or("settings.clusterLocal is neither true nor false")?,
            };
            for host in list(item, "hosts")? {
                let pattern =
                    HostPattern::new(host.as_str().unwrap_or_default()).map_err(|e| e.to_string())?;
                all.retain(|(known, _)| *known != pattern);
                all.push((pattern, local));
            }
            if all.len() > MOST_HOSTS {
                return Err(format!("more than {MOST_HOSTS} hosts are not read"));
            }
        }
        all.sort();
        Ok(all.into())
    }
    fn entries(&mut self, tree: &Tree) -> Result<Option<VisibilityPolicy>, String> {
        let known = ["defaultVisibility", "policies", "applyToSidecars"];
        self.ignore_rest(tree, "serviceEntryVisibility.", &known);
        let applies = match get(tree, "applyToSidecars") {
            None => false,
            Some(applies) => applies.as_bool().ok_or("applyToSidecars is neither true nor false")?,
        };
        let policy = VisibilityPolicy::parse(tree)?;
        if !applies {
            self.ignore("serviceEntryVisibility (it binds Envoy and gRPC with applyToSidecars only)");
        }
        Ok(Some(policy).filter(|_| applies))
    }
}

/// Parses the host part of identities.
fn trust_domain(value: &Value) -> Result<Option<Arc<str>>, String> {
    let text = value.as_str().ok_or("is not text")?;
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if text.len() > 255 || !text.bytes().all(fine) {
        return Err("is not up to 255 letters, digits, `-`, `.` and `_`".into());
    }
    Ok(Some(text).filter(|text| !text.is_empty()).map(Arc::from))
}

fn root_namespace(value: &Value) -> Result<Option<Namespace>, String> {
    let text = value.as_str().ok_or("is not text")?;
    (!text.is_empty()).then(|| Settings::parse_root_namespace(text)).transpose()
}

fn aliases(value: &Value) -> Result<Option<Arc<[Arc<str>]>>, String> {
    let items = value.as_array().ok_or("is not a list")?;
    if items.len() > MOST_ALIASES {
        return Err(format!("more than {MOST_ALIASES} domains are not read"));
    }
    let domains: Result<Vec<_>, _> = items.iter().map(trust_domain).collect();
    let domains: Arc<[Arc<str>]> = domains?.into_iter().flatten().collect();
    Ok(Some(domains).filter(|domains| !domains.is_empty()))
}

fn default_export(value: &Value) -> Result<Option<Visibility>, String> {
    let names = value.as_array().ok_or("is not a list")?;
    if names.len() > MOST_NAMESPACES {
        return Err(format!("more than {MOST_NAMESPACES} namespaces are not read"));
    }
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    Ok(Visibility::default_of(names.ok_or("holds an item that is not text")?))
}
