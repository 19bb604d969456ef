//! Service to declaration (docs/reference/kubernetes.md).

use std::sync::Arc;

use tributary_model::{
    Attributes, Code, DeclKey, Declaration, DeclarationRole, DeclarationWarning, ExportTo, Fact, Hostname,
    Identity, MergeName, Resolution, Selector, ServiceAddress, ServiceKey, WorkloadKind,
};

use super::derived::Derived;
use super::mirror::is_mirror;
use super::{mcs, workload_attributes};
use crate::interner::Interner;
use crate::kind::{Kind, Name};
use crate::project::Service;
use crate::project::service::ServiceKind;
use crate::state::ClusterObjects;

/// Derives the declaration of a Service.
#[must_use]
pub fn derive(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Derived {
    let Some(service) = objects.services.get(name).filter(|_| objects.selected(&name.namespace)) else {
        return Derived::default();
    };
    if is_mirror(service, &objects.options.consul_domains) {
        return Derived::default();
    }
    let key = match key(objects, shared, name) {
        Ok(key) => key,
        Err(why) => return Derived::refused(Code::INVALID_HOST, why),
    };
    let resolution = match resolution(service) {
        Ok(resolution) => resolution,
        Err(why) => return Derived::refused(Code::INVALID_HOST, why),
    };
    let declaration = declaration(objects, shared, service, &key, resolution);
    let offer = mcs::offer(objects, shared, name, &declaration);
    let key = DeclKey { service: key, object: name.object(Kind::Service) };
    let own = Fact::Service(key, Arc::new(declaration));
    let lacks = mcs::lacks_export(objects, name).then(|| (Kind::Export, name.clone()));
    Derived { facts: std::iter::once(own).chain(offer).collect(), problem: None, lacks }
}

/// Returns the service key of a Service.
pub fn key(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Result<ServiceKey, String> {
    let namespace = shared.namespace(&name.namespace).ok_or("its namespace is not valid")?;
    Ok(ServiceKey { host: objects.host(name)?, namespace })
}

fn resolution(service: &Service) -> Result<Resolution, String> {
    match &service.address {
        ServiceKind::Cluster(_) => Ok(Resolution::ClientSide),
        ServiceKind::Headless => Ok(Resolution::Passthrough),
        ServiceKind::External(name) => {
            Hostname::new(name).map(Resolution::Alias).map_err(|error| format!("spec.externalName: {error}"))
        }
    }
}

fn declaration(
    objects: &ClusterObjects,
    shared: &mut Interner,
    service: &Service,
    key: &ServiceKey,
    resolution: Resolution,
) -> Declaration {
    Declaration {
        source: service.meta.source(Kind::Service),
        created: service.meta.created,
        ports: service.ports.iter().map(|port| port.service.clone()).collect(),
        addresses: addresses(objects, service),
        selector: selector(objects, service),
        export: service
            .export
            .as_ref()
            .map(|list| ExportTo::parse(list.split(','), &key.namespace))
            .unwrap_or_default(),
        attributes: attributes(objects, shared, service),
        merge_name: Some(MergeName::base(Arc::clone(&service.meta.name.name), key.host.clone())),
        resolution,
    }
}

fn addresses(objects: &ClusterObjects, service: &Service) -> Arc<[ServiceAddress]> {
    let ServiceKind::Cluster(ips) = &service.address else { return Arc::from([]) };
    let address = |ip: &std::net::IpAddr| ServiceAddress {
        cluster: Some(objects.options.cluster.clone()),
        ip: *ip,
        prefix: if ip.is_ipv4() { 32 } else { 128 },
        allocated: false,
    };
    let mut addresses: Vec<ServiceAddress> = ips.iter().map(address).collect();
    addresses.sort();
    addresses.dedup();
    addresses.into()
}

/// Returns the selector of WorkloadEntries in its namespace and cluster; its pods come through slices.
fn selector(objects: &ClusterObjects, service: &Service) -> Option<Selector> {
    if service.selector.is_empty() || !matches!(service.address, ServiceKind::Cluster(_)) {
        return None;
    }
    Some(Selector {
        labels: service.selector.clone(),
        kinds: Arc::from([WorkloadKind::Entry]),
        cluster: Some(objects.options.cluster.clone()),
        names: false,
        augmented: true,
    })
}

fn attributes(objects: &ClusterObjects, shared: &mut Interner, service: &Service) -> Attributes {
    let name = &service.meta.name;
    let near = service.traffic.or_else(|| objects.namespace_traffic(&name.namespace));
    Attributes {
        labels: service.meta.labels.clone(),
        mesh_external: matches!(service.address, ServiceKind::External(_)),
        node_local: service.node_local,
        // the core decides this by host, from the settings
        cluster_local: false,
        own_cluster_only: mcs::own_cluster_only(objects, name),
        traffic: near.unwrap_or_default(),
        publish_not_ready: service.publish_not_ready,
        persistent_sessions: service.keeps_sessions(),
        identities: identities(objects, shared, service),
        race_connect: false,
        warnings: service.doubts.iter().map(warning).collect(),
        role: DeclarationRole::Whole,
        headless: matches!(service.address, ServiceKind::Headless),
    }
}

fn warning(doubt: &Arc<str>) -> DeclarationWarning {
    DeclarationWarning { code: Code::ANNOTATION_NOT_UNDERSTOOD, message: Arc::clone(doubt) }
}

/// Returns the annotated identities and those of annotated service accounts, sorted.
fn identities(objects: &ClusterObjects, shared: &mut Interner, service: &Service) -> Arc<[Identity]> {
    let mut all: Vec<Identity> = service.identities.iter().filter_map(|text| shared.identity(text)).collect();
    let namespace = &service.meta.name.namespace;
    all.extend(
        service
            .accounts
            .iter()
            .filter_map(|account| workload_attributes::identity(objects, shared, namespace, account)),
    );
    all.sort();
    all.dedup();
    all.into()
}

#[cfg(test)]
mod tests;
