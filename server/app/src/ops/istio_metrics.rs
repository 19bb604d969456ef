//! Samples under names of Istio, from the values that a scrape has read. `ops::metrics` calls it if the configuration wants them.

use tributary_xds::answers::ResourceType;
use tributary_xds::histogram::Distribution;

use super::metrics::State;
use crate::admin::metrics::istio as m;
use crate::admin::metrics::{Info, Sample};

/// Metric of the rejections of one type.
const REJECTS: [(ResourceType, &Info); 4] = [
    (ResourceType::Cluster, m::CDS_REJECT),
    (ResourceType::Endpoints, m::EDS_REJECT),
    (ResourceType::Listener, m::LDS_REJECT),
    (ResourceType::Route, m::RDS_REJECT),
];

/// Adds the samples.
pub(super) fn add(state: &State<'_>, config_cluster: &str, out: &mut Vec<Sample>) {
    let streams: u64 = state.clients.streams().into_iter().map(|(_, count)| count).sum();
    out.push(Sample::new(m::XDS, &[], streams as f64));
    out.push(Sample::new(m::SERVICES, &[], state.catalog.hosts.len() as f64));
    let stale = state.xds.iter().find(|(name, _)| *name == "stale_nonces").map_or(0, |(_, count)| *count);
    out.push(Sample::new(m::EXPIRED_NONCE, &[], stale as f64));
    let local = state.clusters.iter().filter(|cluster| cluster.name == config_cluster).count();
    let remote = state.clusters.len().saturating_sub(local);
    out.push(Sample::new(m::CLUSTERS, &["local"], local as f64));
    out.push(Sample::new(m::CLUSTERS, &["remote"], remote as f64));
    of_pushes(state, out);
}

fn of_pushes(state: &State<'_>, out: &mut Vec<Sample>) {
    let mut convergence: Option<Distribution> = None;
    for of in state.pushes.kinds() {
        let label = [of.kind.as_str()];
        out.push(Sample::new(m::XDS_PUSHES, &label, of.seconds.count() as f64));
        out.push(Sample::new(m::XDS_PUSH_TIME, &label, of.seconds));
        out.push(Sample::new(m::CONFIG_SIZE, &[of.kind.type_url()], of.bytes));
        out.push(Sample::new(m::REJECTS, &label, of.nacks as f64));
        if let Some((_, info)) = REJECTS.iter().find(|(kind, _)| *kind == of.kind) {
            out.push(Sample::new(info, &[], of.nacks as f64));
        }
        for (_, more) in of.convergence {
            convergence = Some(match convergence {
                Some(sum) => added(sum, &more),
                None => more,
            });
        }
    }
    out.extend(convergence.map(|sum| Sample::new(m::CONVERGENCE, &[], sum)));
}

/// Adds a distribution with the same bounds.
fn added(mut sum: Distribution, more: &Distribution) -> Distribution {
    for ((_, count), (_, further)) in sum.buckets.iter_mut().zip(&more.buckets) {
        *count += further;
    }
    sum.sum += more.sum;
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_add_up_by_bucket() {
        let mk = |low, high, sum| Distribution { buckets: vec![(Some(0.1), low), (None, high)], sum };
        assert_eq!(added(mk(1, 2, 3.0), &mk(10, 20, 30.0)), mk(11, 22, 33.0));
    }

    #[test]
    fn every_name_has_ours_beside_it_and_none_is_also_refused() {
        let names: Vec<_> = m::TABLE.iter().map(|info| info.name).collect();
        assert_eq!(names, m::BESIDE.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (_, ours) in m::BESIDE {
            let is_ours = |info: &&Info| ours.trim_end_matches("_count") == info.in_text();
            assert!(crate::admin::metrics::TABLE.iter().copied().any(|info| is_ours(&info)), "{ours}");
        }
        assert!(m::REFUSED.iter().all(|(name, why)| !names.contains(name) && !why.ends_with('.')));
    }
}
