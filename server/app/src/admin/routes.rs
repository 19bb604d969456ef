//! The one table of routes; a test walks it.

use axum::Json;
use axum::http::HeaderMap;
use axum::routing::{MethodRouter, get, post};
use serde_json::json;

use super::{Shared, Surface, about, console, debug, events, health, profile, resources, state};
use crate::console as page;

/// Access to a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Open to every client of a listener; reveals nothing about the served content.
    Anyone,
    /// Open to every client of the admin and the health listener, and to operators with rights on the remote admin listener.
    Scrape,
    /// Open to every client of the admin listeners: a constant part of the program.
    Page,
    /// Processes on this machine, through the admin listener; and operators with rights, through the remote admin listener.
    Loopback,
}

impl Access {
    /// Whether a listener has routes of this access.
    #[must_use]
    pub fn is_on(self, surface: Surface) -> bool {
        matches!(self, Self::Anyone | Self::Scrape) || surface != Surface::Health
    }
}

/// Route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Path, without parameters.
    pub path: &'static str,
    /// Access.
    pub access: Access,
    /// Whether it changes something: it then allows only POST. All others allow GET and HEAD.
    pub changes: bool,
    /// Description for the reference.
    pub about: &'static str,
    /// Handler.
    pub handler: fn() -> MethodRouter<Shared>,
}

/// Description of the parts of the console, which the reference leaves out.
pub const PART: &str = "part of the console";

/// Route of a part of the console.
macro_rules! part {
    ($name:literal) => {
        Route {
            path: concat!("/console/", $name),
            access: Access::Page,
            changes: false,
            about: PART,
            handler: || {
                get(|headers: HeaderMap| async move { page::answer(concat!("/console/", $name), &headers) })
            },
        }
    };
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/livez",
        access: Access::Anyone,
        changes: false,
        about: "200 while the core processes batches, whatever the state of the sources",
        handler: || get(health::livez),
    },
    Route {
        path: "/readyz",
        access: Access::Anyone,
        changes: false,
        about: "200 while clients are answered; `?verbose` lists the conditions (with names of registries on the admin listener only)",
        handler: || get(health::readyz),
    },
    Route {
        path: "/metrics",
        access: Access::Scrape,
        changes: false,
        about: "metrics, as OpenMetrics for clients that accept it, else as Prometheus text; see metrics.md",
        handler: || get(health::metrics),
    },
    Route {
        path: "/debug",
        access: Access::Loopback,
        changes: false,
        about: "this table",
        handler: || get(index),
    },
    Route {
        path: "/debug/overview",
        access: Access::Loopback,
        changes: false,
        about: "Overview: the server, numbers of services, endpoints, clients and held removals, its registries in short, and what `tributary check` finds, the worst first; the first 100 findings",
        handler: || get(console::overview),
    },
    Route {
        path: "/debug/map",
        access: Access::Loopback,
        changes: false,
        about: "Map: registries, Consul datacenters, clusters, networks and gateways as nodes with their state, and edges with numbers of services and endpoints",
        handler: || get(console::map),
    },
    Route {
        path: "/debug/timeline",
        access: Access::Loopback,
        changes: false,
        about: "Timeline: the last 1,000 changes, the oldest first: states of registries and clusters, hosts and endpoints, held removals, objects that are quarantined, configuration, clients and rejections; takes `after` (only entries with a greater `sequence`, the oldest first), `since` (such as `10m`), `host` (only entries that may be about it) and `limit` (without `after` the newest)",
        handler: || get(console::timeline),
    },
    Route {
        path: "/debug/events",
        access: Access::Loopback,
        changes: false,
        about: "server-sent events, for programs that show what is served: `change` with the generation, the clients, the held removals, what changed, and the last entry of the timeline; one at once, then at most 20 a second; 503 beyond 32 streams",
        handler: || get(events::events),
    },
    Route {
        path: "/debug/services",
        access: Access::Loopback,
        changes: false,
        about: "ServiceList: services, merged; takes `name`, `namespace`, `host`, `registry`, `search` (a part of a host, address or namespace), `offset`, `limit`, `after`; `metadata.total` counts the matches",
        handler: || get(debug::services),
    },
    Route {
        path: "/debug/endpoints",
        access: Access::Loopback,
        changes: false,
        about: "EndpointList: endpoints with provenance; same parameters",
        handler: || get(debug::endpoints),
    },
    Route {
        path: "/debug/merges",
        access: Access::Loopback,
        changes: false,
        about: "MergeList: services with the same name in a cluster and in Consul, with the result of the merge rule; takes `name`, `namespace`, `host`, `registry`, `offset`, `limit`, `after`",
        handler: || get(debug::merges),
    },
    Route {
        path: "/debug/gateways",
        access: Access::Loopback,
        changes: false,
        about: "GatewayList: gateways of networks, each with its address, the object that declares it, and what it lacks to be used; takes `name`, `namespace`, `offset`, `limit`, `after`",
        handler: || get(debug::gateways),
    },
    Route {
        path: "/debug/policies",
        access: Access::Loopback,
        changes: false,
        about: "PolicyList: policies, such as Sidecars, DestinationRules, VirtualServices, EnvoyFilters, Gateways, PeerAuthentications, AuthorizationPolicies and RequestAuthentications, with their sources and conditions; takes `name`, `namespace`, `host`, `registry`, `search`, `offset`, `limit`, `after`; texts longer than 4 KiB are cut unless `name` is given",
        handler: || get(debug::policies),
    },
    Route {
        path: "/debug/clients",
        access: Access::Loopback,
        changes: false,
        about: "ClientList: connected clients with sent and acked versions and NACK text; takes `name`, `namespace`, `search` (a part of an id, address, identity or namespace), `offset`, `limit`",
        handler: || get(debug::clients),
    },
    Route {
        path: "/debug/registries",
        access: Access::Loopback,
        changes: false,
        about: "RegistryList: registries, with held removals and problems; takes `name`, `registry`, `limit`",
        handler: || get(debug::registries),
    },
    Route {
        path: "/debug/receipts",
        access: Access::Loopback,
        changes: false,
        about: "ReceiptList: clusters of Secrets that were removed, the newest first, with what left with each; the last 100",
        handler: || get(debug::receipts),
    },
    Route {
        path: "/debug/plan",
        access: Access::Loopback,
        changes: false,
        about: "PlanList: what the removal of the cluster `name` would take away now, and the hosts that would keep no endpoint",
        handler: || get(debug::plans),
    },
    Route {
        path: "/debug/clusters",
        access: Access::Loopback,
        changes: false,
        about: "ClusterList: Kubernetes clusters with state, reason, credential expiry and declarations, those with trouble first; `metadata.sources` are the watches of Secrets; takes `name`, `registry`, `limit`",
        handler: || get(debug::clusters),
    },
    Route {
        path: "/debug/clusters/check",
        access: Access::Loopback,
        changes: false,
        about: "TriedClusterList: connects to every declared and configured cluster and returns what each answers: name, connection, authentication, version, clock, identity and rights; takes `name`; one request at a time, a minute at most",
        handler: || get(debug::try_clusters),
    },
    Route {
        path: "/debug/guard",
        access: Access::Loopback,
        changes: false,
        about: "HeldList: removals that are held until their source confirms them; takes `name`, `registry`, `limit`",
        handler: || get(debug::guard),
    },
    Route {
        path: "/debug/guard/release",
        access: Access::Loopback,
        changes: true,
        about: "releases the held removal `id` and returns it",
        handler: || post(debug::release),
    },
    Route {
        path: "/debug/state",
        access: Access::Loopback,
        changes: false,
        about: "State: the state that is kept across restarts, its directory, and its completeness",
        handler: || get(state::show),
    },
    Route {
        path: "/debug/state/plan",
        access: Access::Loopback,
        changes: false,
        about: "EndList: facts that ending `part` (REGISTRY, REGISTRY/SCOPE or REGISTRY/SCOPE/KIND) would remove",
        handler: || get(state::plan),
    },
    Route {
        path: "/debug/state/end",
        access: Access::Loopback,
        changes: true,
        about: "ends `part` and returns the removed facts",
        handler: || post(state::end),
    },
    Route {
        path: "/debug/state/accept",
        access: Access::Loopback,
        changes: true,
        about: "accepts the next run of `registry` although it serves less or has a new identity",
        handler: || post(state::accept),
    },
    Route {
        path: "/debug/explain",
        access: Access::Loopback,
        changes: false,
        about: "ExplainList: how `endpoint` came to be served: the steps from its source to the client in order, each with stage, verdict, code, object, registry and time of the last confirmation; with `client` the steps `deliver` have the resources that it was sent, their versions, and whether it acknowledged them; takes `host`, `subset` and `client`",
        handler: || get(debug::explain),
    },
    Route {
        path: "/debug/why-not",
        access: Access::Loopback,
        changes: false,
        about: "WhyNotList: why `client` does not receive endpoints of `host`; takes `subset`",
        handler: || get(debug::why_not),
    },
    Route {
        path: "/debug/resources",
        access: Access::Loopback,
        changes: false,
        about: "ResourceList: what `client` was sent and whether it acknowledged it; takes `type`, `name`, `host`, and `bodies=true` for decoded resources without secrets, 64 MiB at most",
        handler: || get(resources::list),
    },
    Route {
        path: "/debug/routes",
        access: Access::Loopback,
        changes: false,
        about: "RouteList: routes of `client` to `host`, in the order in which they are tried",
        handler: || get(resources::routes),
    },
    Route {
        path: "/debug/diff",
        access: Access::Loopback,
        changes: false,
        about: "DiffList: how the resources of the clients `a` and `b` differ, and why; takes `type`",
        handler: || get(resources::diff),
    },
    Route {
        path: "/debug/version",
        access: Access::Loopback,
        changes: false,
        about: "Version: name and version of the server, the format of its journal, and the versions of other programs that its tests run against",
        handler: || get(about::version),
    },
    Route {
        path: "/debug/readiness",
        access: Access::Loopback,
        changes: false,
        about: "Readiness: the conditions that `/readyz?verbose` lists; 200 also while the server is not ready",
        handler: || get(about::readiness),
    },
    Route {
        path: "/debug/certificates",
        access: Access::Loopback,
        changes: false,
        about: "CertificateList: certificates of the listeners that are in use, each with its file and its end",
        handler: || get(about::certificates),
    },
    Route {
        path: "/debug/conditions",
        access: Access::Loopback,
        changes: false,
        about: "ConditionCountList: conditions of services counted by code, with three examples each; those that need a walk of endpoints are in `/debug/services` only",
        handler: || get(about::conditions),
    },
    Route {
        path: "/debug/config",
        access: Access::Loopback,
        changes: false,
        about: "the running configuration, where each value was set, and the last reload",
        handler: || get(debug::config),
    },
    Route {
        path: "/debug/profile",
        access: Access::Loopback,
        changes: false,
        about: "CPU profile of the server in the format of pprof, compressed, if `admin.profile` is set; takes `seconds` (1 to 60, default 10); one at a time; the first one takes some 160 MB of memory until the server ends",
        handler: || get(profile::cpu),
    },
    Route {
        path: "/",
        access: Access::Page,
        changes: false,
        about: "leads to the console",
        handler: || get(page::lead),
    },
    Route {
        path: "/console",
        access: Access::Page,
        changes: false,
        about: "leads to the console",
        handler: || get(page::complete),
    },
    Route {
        path: "/console/",
        access: Access::Page,
        changes: false,
        about: "the console, a page that shows the documents of `/debug`",
        handler: || get(|headers: HeaderMap| async move { page::answer("/console/", &headers) }),
    },
    part!("api.js"),
    part!("app.js"),
    part!("clients.js"),
    part!("clusters.js"),
    part!("dialogs.js"),
    part!("dom.js"),
    part!("endpoint.js"),
    part!("format.js"),
    part!("grid.js"),
    part!("held.js"),
    part!("icon.svg"),
    part!("keys.js"),
    part!("links.js"),
    part!("lists.js"),
    part!("live.js"),
    part!("map.js"),
    part!("overview.js"),
    part!("page.css"),
    part!("parts.css"),
    part!("parts.js"),
    part!("policies.js"),
    part!("questions.js"),
    part!("registries.js"),
    part!("service.js"),
    part!("services.js"),
    part!("steps.js"),
    part!("theme.js"),
    part!("timeline.js"),
    part!("views.js"),
    part!("why_not.js"),
];

/// Table of routes. Not `async`: the table holds this function, so its type must be plain.
pub fn index() -> std::future::Ready<Json<serde_json::Value>> {
    let items: Vec<_> =
        ROUTES.iter().map(|route| json!({"path": route.path, "about": route.about})).collect();
    let list = json!({"apiVersion": crate::document::API_VERSION, "kind": "RouteList", "items": items});
    std::future::ready(Json(list))
}

/// Returns the route of a path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}
