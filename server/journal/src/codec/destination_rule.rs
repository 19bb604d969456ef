//! DestinationRules on disk.
//!
//! The codec of policies calls it. Lists keep their order; an absent field has its default.

use std::collections::BTreeMap;

use tributary_model::{
    DestinationRule, ExportTo, HostPattern, Labels, PortNumber, PortPolicies, Subset, SubsetRule,
    TrafficPolicy,
};

use super::common::{put_export, read_visibility};
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};
use super::{Fault, traffic_policy};

pub(crate) fn put(enc: &mut Encoder, value: &DestinationRule) {
    enc.text(1, value.host.as_str());
    put_export(enc, 2, &value.export);
    enc.labels(3, &value.selector);
    enc.nest(4, |enc| put_policies(enc, &value.policies));
    for subset in &*value.subsets {
        enc.nest(5, |enc| {
            enc.text(1, subset.name.as_str());
            enc.labels(2, &subset.labels);
            enc.nest(3, |enc| put_policies(enc, &subset.policies));
        });
    }
    enc.texts(6, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<DestinationRule, Fault> {
    let (mut host, mut export, mut selector) = (None, ExportTo::Default, Labels::default());
    let (mut policies, mut subsets, mut ignored) = (PortPolicies::default(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => host = Some(d.name(value, |text| HostPattern::new(text))?),
            2 => export = ExportTo::Set(read_visibility(d, value)?),
            3 => selector = d.labels(value)?,
            4 => policies = read_policies(d, value)?,
            5 => subsets.push(read_subset(d, value)?),
            6 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(DestinationRule {
        host: host.ok_or(Fault::Missing("host"))?,
        export,
        selector,
        policies,
        subsets: subsets.into(),
        ignored: ignored.into(),
    })
}

fn read_subset(d: &mut Decoder, value: Value<'_>) -> Result<SubsetRule, Fault> {
    let (mut name, mut labels, mut policies) = (None, Labels::default(), PortPolicies::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => labels = d.labels(value)?,
            3 => policies = read_policies(d, value)?,
            _ => {}
        }
    }
    let name = name.as_deref().and_then(Subset::new).ok_or(Fault::Missing("name of a subset"))?;
    Ok(SubsetRule { name, labels, policies })
}

fn put_policies(enc: &mut Encoder, value: &PortPolicies) {
    if value.all != TrafficPolicy::default() {
        enc.nest(1, |enc| traffic_policy::put(enc, &value.all));
    }
    for (port, policy) in &*value.ports {
        enc.nest(2, |enc| {
            enc.int(1, port.get());
            enc.nest(2, |enc| traffic_policy::put(enc, policy));
        });
    }
}

fn read_policies(d: &mut Decoder, value: Value<'_>) -> Result<PortPolicies, Fault> {
    let (mut all, mut ports) = (TrafficPolicy::default(), BTreeMap::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => all = traffic_policy::read(d, value)?,
            2 => {
                let (port, policy) = read_port(d, value)?;
                ports.insert(port, policy);
            }
            _ => {}
        }
    }
    Ok(PortPolicies::new(all, ports))
}

fn read_port(d: &mut Decoder, value: Value<'_>) -> Result<(PortNumber, TrafficPolicy), Fault> {
    let (mut port, mut policy) = (None, TrafficPolicy::default());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => port = Some(decode::port(value)?),
            2 => policy = traffic_policy::read(d, value)?,
            _ => {}
        }
    }
    Ok((port.ok_or(Fault::Missing("port"))?, policy))
}
