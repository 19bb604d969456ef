//! The one table of routes. What is not here does not exist; a test walks it.

use axum::routing::{MethodRouter, get, post};

use super::{Shared, Surface, debug, health, state};

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever reaches a listener: says nothing about what is served.
    Anyone,
    /// Processes on this machine, through the admin listener.
    Loopback,
}

impl Access {
    /// Whether a listener has routes of this access.
    #[must_use]
    pub fn is_on(self, surface: Surface) -> bool {
        self == Self::Anyone || surface == Surface::Admin
    }
}

/// One route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Its path; nothing in it varies.
    pub path: &'static str,
    /// Who may ask.
    pub access: Access,
    /// Whether asking it changes something: it takes POST alone. All others take GET and HEAD.
    pub changes: bool,
    /// What it answers, for the reference.
    pub about: &'static str,
    /// Who answers.
    pub handler: fn() -> MethodRouter<Shared>,
}

/// Every route.
pub const ROUTES: &[Route] = &[
    Route {
        path: "/livez",
        access: Access::Anyone,
        changes: false,
        about: "200 while the owner of the catalog takes turns; says nothing about sources",
        handler: || get(health::livez),
    },
    Route {
        path: "/readyz",
        access: Access::Anyone,
        changes: false,
        about: "200 while clients are answered; `?verbose` lists what that rests on (with names of registries on the admin listener alone)",
        handler: || get(health::readyz),
    },
    Route {
        path: "/metrics",
        access: Access::Anyone,
        changes: false,
        about: "OpenMetrics; see metrics.md",
        handler: || get(health::metrics),
    },
    Route {
        path: "/debug",
        access: Access::Loopback,
        changes: false,
        about: "this table",
        handler: || get(debug::index),
    },
    Route {
        path: "/debug/services",
        access: Access::Loopback,
        changes: false,
        about: "ServiceList: services, merged; takes `name`, `namespace`, `host`, `registry`, `limit`, `after`",
        handler: || get(debug::services),
    },
    Route {
        path: "/debug/endpoints",
        access: Access::Loopback,
        changes: false,
        about: "EndpointList: endpoints with provenance; takes the same",
        handler: || get(debug::endpoints),
    },
    Route {
        path: "/debug/merges",
        access: Access::Loopback,
        changes: false,
        about: "MergeList: services of one name in a cluster and in Consul, and what becomes of them; takes the same",
        handler: || get(debug::merges),
    },
    Route {
        path: "/debug/clients",
        access: Access::Loopback,
        changes: false,
        about: "ClientList: connected clients with sent and acked versions and NACK text; takes `name`, `namespace`, `limit`",
        handler: || get(debug::clients),
    },
    Route {
        path: "/debug/registries",
        access: Access::Loopback,
        changes: false,
        about: "RegistryList: sources, what they hold back and what is wrong in them; takes `name`, `registry`, `limit`",
        handler: || get(debug::registries),
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
        about: "lets the held removal `id` happen, and answers with it",
        handler: || post(debug::release),
    },
    Route {
        path: "/debug/state",
        access: Access::Loopback,
        changes: false,
        about: "State: what is remembered over a restart, where, and how whole it is",
        handler: || get(state::show),
    },
    Route {
        path: "/debug/state/plan",
        access: Access::Loopback,
        changes: false,
        about: "EndList: what ending `part` (REGISTRY, REGISTRY/SCOPE or REGISTRY/SCOPE/KIND) would take away",
        handler: || get(state::plan),
    },
    Route {
        path: "/debug/state/end",
        access: Access::Loopback,
        changes: true,
        about: "ends `part`, and answers with what went",
        handler: || post(state::end),
    },
    Route {
        path: "/debug/state/accept",
        access: Access::Loopback,
        changes: true,
        about: "takes what the next run of `registry` reports although it is less, or another source's",
        handler: || post(state::accept),
    },
    Route {
        path: "/debug/explain",
        access: Access::Loopback,
        changes: false,
        about: "ExplainList: how `endpoint` came to be served; takes `host` and `client`",
        handler: || get(debug::explain),
    },
    Route {
        path: "/debug/why-not",
        access: Access::Loopback,
        changes: false,
        about: "WhyNotList: why `client` is not given endpoints of `host`",
        handler: || get(debug::why_not),
    },
    Route {
        path: "/debug/config",
        access: Access::Loopback,
        changes: false,
        about: "the running configuration, where each value was set, and the last reload",
        handler: || get(debug::config),
    },
];

/// The route of a path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}
