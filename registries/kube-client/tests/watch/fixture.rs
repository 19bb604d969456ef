//! Running watch, and a consumer that applies its events as every consumer does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use tributary_kube_client::{
    ClusterIdentity, Event, ObjectName, Projection, Resource, Timing, Watch, WatchSpec,
};
use tributary_model::{SourcePart, SourceState, Withheld};
use tributary_registry_api::SplitMix;
use tributary_scripted_api::{ApiServer, Kind};

pub(crate) const PODS: Kind =
    Kind { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };
pub(crate) const THINGS: Kind =
    Kind { group: "things.test", version: "v1", plural: "things", kind: "Thing", namespaced: true };

pub(crate) const POD_KIND: Resource = Resource {
    group: std::borrow::Cow::Borrowed(""),
    versions: &["v1"],
    plural: "pods",
    kind: "Pod",
    namespaced: true,
    optional: false,
};
pub(crate) const THING_KIND: Resource = Resource {
    group: std::borrow::Cow::Borrowed("things.test"),
    versions: &["v1", "v1beta1"],
    plural: "things",
    kind: "Thing",
    namespaced: true,
    optional: true,
};

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Pod with the fields that the tests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    name: ObjectName,
    ip: String,
}

impl Projection for Pod {
    fn decode(raw: &RawValue) -> Result<Self, String> {
        let value: Value = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let meta = &value["metadata"];
        let ip = text(&value["ip"]).ok_or("ip is not a text")?;
        let name = meta["name"].as_str().unwrap_or_default();
        Ok(Self { name: ObjectName::new(meta["namespace"].as_str().unwrap_or_default(), name), ip })
    }
}

pub(crate) fn pod(name: &str, ip: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "ip": ip, "unknown": {"field": [1, 2]}})
}

/// State of a consumer after the events so far.
pub(crate) struct Fixture {
    pub(crate) server: ApiServer,
    watch: Watch<Pod>,
    pub(crate) held: BTreeMap<String, String>,
    unseen: Option<BTreeSet<String>>,
    pub(crate) bad: BTreeMap<String, String>,
    /// Number of decoded objects.
    pub(crate) puts: usize,
    pub(crate) listed: usize,
    pub(crate) recovered: u64,
    pub(crate) absent: usize,
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) resumed: usize,
    pub(crate) confirmed: usize,
    pub(crate) statuses: Vec<SourcePart>,
    pub(crate) start: Instant,
}

pub(crate) fn timing() -> Timing {
    Timing { page: 2, ..Timing::default() }
}

impl Fixture {
    pub(crate) fn over(server: ApiServer, resource: Resource, timing: Timing) -> Self {
        let spec = WatchSpec::all(resource, timing);
        let watch = Watch::new(server.client(), spec, SplitMix::seeded(7));
        Self {
            server,
            watch,
            held: BTreeMap::new(),
            unseen: None,
            bad: BTreeMap::new(),
            puts: 0,
            listed: 0,
            recovered: 0,
            absent: 0,
            withheld: Vec::new(),
            resumed: 0,
            confirmed: 0,
            statuses: Vec::new(),
            start: Instant::now(),
        }
    }
    /// Requires a confirmed cluster before a result is used.
    pub(crate) fn confirming(mut self) -> Self {
        let cluster = ClusterIdentity::new(self.server.client());
        self.watch = self.watch.of_cluster(cluster);
        self
    }
    /// Watches pods of these names.
    pub(crate) fn pods(names: &[&str]) -> Self {
        let server = ApiServer::new(&[PODS]);
        for name in names {
            server.put("pods", pod(name, "10.0.0.1"));
        }
        Self::over(server, POD_KIND, timing())
    }
    pub(crate) fn names(&self) -> Vec<&str> {
        self.held.keys().map(|name| name.trim_start_matches("shop/")).collect()
    }
    pub(crate) fn state(&self) -> SourceState {
        self.statuses.last().map(|part| part.state).unwrap_or_default()
    }
    pub(crate) fn reason(&self) -> String {
        self.statuses.last().map(|part| part.reason.to_string()).unwrap_or_default()
    }
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
    /// Marks objects as held from earlier runs.
    pub(crate) const fn hold(&mut self) {
        self.watch.hold();
    }
    /// Lists again.
    pub(crate) fn list_again(&mut self) {
        self.watch.list_again().into_iter().for_each(|event| self.apply(event));
    }
    /// Applies events for this long.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(events) = tokio::time::timeout_at(until, self.watch.next()).await {
            events.into_iter().for_each(|event| self.apply(event));
        }
    }
    /// Applies events until the condition holds; at most an hour.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + secs(3_600);
        while !holds(self) {
            match tokio::time::timeout_at(limit, self.watch.next()).await {
                Ok(events) => events.into_iter().for_each(|event| self.apply(event)),
                Err(_) => panic!("never {what}; statuses {:?}", self.statuses),
            }
        }
    }
    pub(crate) async fn live(&mut self) {
        self.until("live", |fixture| fixture.state() == SourceState::Live).await;
    }
    fn apply(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => {
                self.unseen.get_or_insert_default().extend(self.held.keys().cloned());
            }
            Event::Apply(pod) => {
                self.puts += 1;
                self.see(&pod.name);
                self.bad.remove(&pod.name.to_string());
                self.held.insert(pod.name.to_string(), pod.ip);
            }
            Event::Unchanged(name) => self.see(&name),
            Event::Invalid(name, why) => {
                self.see(&name);
                self.bad.insert(name.to_string(), why.to_string());
            }
            Event::Delete(name) => {
                self.held.remove(&name.to_string());
            }
            Event::InitDone => {
                self.listed += 1;
                for name in self.unseen.take().expect("a list begins before it ends") {
                    self.held.remove(&name);
                }
            }
            Event::Confirmed => self.confirmed += 1,
            Event::NotServed => {
                self.absent += 1;
                self.unseen = None;
                self.held.clear();
            }
            Event::Unavailable(why) => self.withheld.push(why),
            Event::Resumed => self.resumed += 1,
            Event::Recovered(lost) => self.recovered += lost,
            Event::Status(part) => self.statuses.push(part),
        }
    }
    fn see(&mut self, name: &ObjectName) {
        if let Some(unseen) = &mut self.unseen {
            unseen.remove(&name.to_string());
        }
    }
}
