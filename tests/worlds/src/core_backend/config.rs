//! Facts of a server's configuration file: mesh-wide values and federated services, in the file's own syntax.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, ExportTo, Fact, FederatedMember, FederatedService,
    Hostname, MergeByName, Namespace, PortNumber, RegistryName, RegistryUpdate, Scope, Settings,
};

use crate::schema::Stage;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FederatedSpec {
    host: String,
    namespace: Option<String>,
    min_healthy_active: Option<u32>,
    members: Vec<MemberSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MemberSpec {
    host: String,
    registry: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    ports: BTreeMap<u16, u16>,
    weight: Option<u32>,
    #[serde(default)]
    standby: bool,
}

impl MemberSpec {
    fn member(&self) -> Result<FederatedMember> {
        let number = |port: u16| PortNumber::new(u32::from(port));
        let ports = self.ports.iter().map(|(own, theirs)| Ok((number(*own)?, number(*theirs)?)));
        Ok(FederatedMember {
            registry: self.registry.as_deref().map(RegistryName::new).transpose()?,
            namespace: self.namespace.as_deref().map(Namespace::new).transpose()?,
            ports: ports.collect::<Result<_>>()?,
            weight: self.weight,
            standby: self.standby,
            ..FederatedMember::new(Hostname::new(&self.host)?)
        })
    }
}

fn federated(value: &Value) -> Result<Fact> {
    let spec: FederatedSpec = serde_json::from_value(value.clone()).context("a federated service")?;
    let federated = FederatedService {
        namespace: Namespace::new(spec.namespace.as_deref().unwrap_or("default"))?,
        export: ExportTo::Default,
        members: spec.members.iter().map(MemberSpec::member).collect::<Result<_>>()?,
        min_healthy_active: spec.min_healthy_active,
        standby_after_stale: None,
        by_name: false,
    };
    Ok(Fact::FederatedService(Hostname::new(&spec.host)?, Arc::new(federated)))
}

fn settings(stage: &Stage) -> Result<Settings> {
    let flat = stage.kubernetes.as_ref().and_then(|spec| spec.cross_network.as_deref());
    let merge_by_name = match stage.merge_by_name.as_deref() {
        None | Some("off") => MergeByName::Off,
        Some("report") => MergeByName::Report,
        Some("on") => MergeByName::On,
        Some(other) => anyhow::bail!("mergeByName is off, report or on, not {other:?}"),
    };
    Ok(Settings {
        cross_network_direct: flat.map(|value| value == "direct"),
        merge_by_name: Some(merge_by_name),
        ..Settings::default()
    })
}

/// Returns all facts of the configuration, as a complete list.
pub(super) fn updates(stage: &Stage) -> Result<Vec<RegistryUpdate>> {
    let scope = Scope::new("file")?;
    let collection = Collection { scope: scope.clone(), kind: CollectionKind::Settings };
    let facts = stage
        .federated_services
        .iter()
        .map(federated)
        .chain([settings(stage).map(|s| Fact::Settings(Arc::new(s)))]);
    let puts = facts.map(|fact| Ok(RegistryUpdate::Put(scope.clone(), fact?, Basis::Authoritative)));
    let mut out = vec![
        RegistryUpdate::Follows { required: vec![collection.clone()], optional: Vec::new() },
        RegistryUpdate::ListStarted(collection.clone()),
    ];
    out.extend(puts.collect::<Result<Vec<_>>>()?);
    out.push(RegistryUpdate::ListEnded(collection, Completeness::Complete));
    Ok(out)
}
